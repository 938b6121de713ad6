// Written by scripts/page_tables.py from engine/export/sanitize.py: change it there, then run `make surface`.

export const UNSAFE =
  String.raw`\u{0}-\u{8}\u{b}-\u{c}\u{e}-\u{1f}\u{7f}-\u{9f}\u{ad}\u{34f}\u{600}-\u{605}\u{61c}\u{6dd}\u{70f}\u{890}-\u{891}\u{8e2}\u{115f}-\u{1160}\u{17b4}-\u{17b5}\u{180b}-\u{180f}\u{200b}\u{200e}-\u{200f}\u{2028}-\u{202e}\u{2060}-\u{2064}\u{2066}-\u{206f}\u{3164}\u{d800}-\u{dfff}\u{fe00}-\u{fe0d}\u{feff}\u{ffa0}\u{fff9}-\u{fffb}\u{110bd}\u{110cd}\u{13430}-\u{1343f}\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}`;
export const BLANK =
  String.raw`\u{d}\u{a0}\u{1680}\u{2000}-\u{200a}\u{200c}-\u{200d}\u{202f}\u{205f}\u{2800}\u{3000}\u{e000}-\u{f8ff}\u{fe0e}-\u{fe0f}`;
