// Images and files of messages. Only four kinds of images are shown, from their bytes; all else is named.

import { h } from "./dom.js";
import { bytes } from "./formats.js";
import { icon } from "./icons.js";
import { oneLine } from "./text.js";

const IMAGES = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;
const REFERENCE = "href:";

/** Return the node of an image or a file. *load* fetches what is only referred to, as a `Blob`. */
export function mediaNode(part, load) {
  const name = oneLine(part.name || part.media_type, 80);
  const isReference = part.data.startsWith(REFERENCE);
  const label = isReference ? name : `${name} · ${bytes(Math.floor((part.data.length * 3) / 4))}`;
  const chip = h("span", { class: "chip" }, icon("file"), label);
  if (!IMAGES.has(part.media_type)) return chip;
  const blob = isReference ? load(part.data.slice(REFERENCE.length)) : Promise.resolve(blobOf(part));
  blob.then(
    (data) => data && chip.replaceWith(imageNode(data, part, chip)),
    () => chip.append(" · can't be loaded"),
  );
  return chip;
}

function imageNode(blob, part, chip) {
  // The type is what was checked, whatever the bytes or the server say.
  const address = URL.createObjectURL(new Blob([blob], { type: part.media_type }));
  const image = h("img", { src: address, alt: part.name ? oneLine(part.name, 200) : "Attached image", class: "media" });
  image.addEventListener("load", () => URL.revokeObjectURL(address), { once: true });
  image.addEventListener(
    "error",
    () => {
      URL.revokeObjectURL(address);
      chip.append(" · can't be shown");
      image.replaceWith(chip);
    },
    { once: true },
  );
  return image;
}

function blobOf(part) {
  if (!BASE64.test(part.data)) return null;
  return new Blob([Uint8Array.from(atob(part.data), (char) => char.charCodeAt(0))]);
}
