/* The search of these pages runs in a worker, and browsers start no worker from a file. Opened from a folder, a page
   gets this one instead: the worker's script in a hidden frame. Served by HTTP, nothing changes. */
"use strict";

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.waiting = [];
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inner = this.frame.contentWindow;
      /* The worker answers by `postMessage`, and loads more scripts by `importScripts`, one after the other. */
      this.inner.postMessage = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      this.inner.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve());
      this.load(new URL(url, location.href).href).then(() => {
        const { waiting } = this;
        this.waiting = null;
        for (const data of waiting) this.deliver(data);
      });
    }
    load(url) {
      return new Promise((done, failed) => {
        const script = this.inner.document.createElement("script");
        script.src = url;
        script.onload = () => done();
        script.onerror = () => failed(new Error(`${url} cannot be loaded`));
        this.inner.document.body.append(script);
      });
    }
    deliver(data) { this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })); }
    postMessage(data) { if (this.waiting) this.waiting.push(data); else this.deliver(data); }
    terminate() { this.frame.remove(); }
  };
}
