// Images and files of messages. Only four kinds of images are shown, from the bytes themselves; all else is named.

import { h } from "./dom.js";
import { bytes } from "./formats.js";
import { icon } from "./icons.js";
import { oneLine } from "./text.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Return the node of an image or a file. */
export function mediaNode(part) {
  const size = Math.floor((part.data.length * 3) / 4);
  const name = oneLine(part.name || part.media_type, 80);
  const address = IMAGES.has(part.media_type) ? blobAddress(part) : null;
  if (!address) return h("span", { class: "chip" }, icon("file"), `${name} · ${bytes(size)}`);
  const image = h("img", { src: address, alt: part.name ? oneLine(part.name, 200) : "Attached image", class: "media" });
  // The bytes are the browser's once it has read them.
  image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
  image.addEventListener(
    "error",
    () => {
      URL.revokeObjectURL(address);
      image.replaceWith(h("span", { class: "chip" }, icon("file"), `${name} · ${bytes(size)} · can't be shown`));
    },
    { once: true },
  );
  return image;
}

function blobAddress(part) {
  if (!BASE64.test(part.data)) return null;
  const text = atob(part.data);
  const data = Uint8Array.from(text, (char) => char.charCodeAt(0));
  return URL.createObjectURL(new Blob([data], { type: part.media_type }));
}
