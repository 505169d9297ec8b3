package text

import (
	"unicode/utf8"

	"toolhost.dev/sdk/tool"
)

// windows1252 maps the bytes 0x80 to 0x9f to characters. The five undefined bytes map to the characters with the same
// code, as in web browsers. Each sequence of bytes therefore has its own text.
var windows1252 = [32]rune{
	'€', 0x81, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0x8d, 'Ž', 0x8f,
	0x90, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0x9d, 'ž', 'Ÿ',
}

func fromWindows1252(b byte) rune {
	if b >= 0x80 && b < 0xa0 {
		return windows1252[b-0x80]
	}
	return rune(b)
}

func decodeWindows1252(data []byte) []byte {
	size := 0
	for _, b := range data {
		size += utf8.RuneLen(fromWindows1252(b))
	}
	out := make([]byte, 0, size)
	for _, b := range data {
		out = utf8.AppendRune(out, fromWindows1252(b))
	}
	return out
}

func toWindows1252(r rune) (byte, bool) {
	if r < 0x80 || r >= 0xa0 && r <= 0xff {
		return byte(r), true
	}
	for i, c := range windows1252 {
		if c == r {
			return byte(0x80 + i), true
		}
	}
	return 0, false
}

func (t *Text) encodeWindows1252(content []byte) ([]byte, error) {
	out := make([]byte, 0, len(content))
	for len(content) > 0 {
		r, n := utf8.DecodeRune(content)
		content = content[n:]
		b, ok := toWindows1252(r)
		if !ok || b >= 0x80 && t.high != nil && !t.high[b-0x80] {
			return nil, tool.Errorf(tool.InvalidArguments,
				"The file is not UTF-8 and its encoding is only guessed, so the character %q cannot be added. Use ASCII characters, or convert the file to UTF-8 first (iconv).", r)
		}
		out = append(out, b)
	}
	return out, nil
}
