// Browsers refuse workers to pages that are opened from a folder. The search then runs in a hidden frame instead.
if (location.protocol === "file:")
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      inside.answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      inside.importScripts = (...scripts) => scripts.forEach((script) => this.write(new URL(script, url).href));
      inside.document.open();
      inside.document.write("<script>self.postMessage = self.answer</script>");
      this.write(url);
      inside.document.close();
      this.ready = new Promise((done) => (inside.onload = done));
    }
    write(url) {
      this.frame.contentWindow.document.write(`<script src="${url}"></script>`);
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
