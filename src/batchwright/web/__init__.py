"""The live page and the HTML report. Reads run directories; writes only reports."""
