package text

import (
	"bytes"
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"

	"toolhost.dev/sdk/tool"
)

// Encoding is the encoding of text in a file.
type Encoding string

// The supported encodings.
const (
	UTF8        Encoding = "utf8"
	UTF8BOM     Encoding = "utf8-bom"
	UTF16LE     Encoding = "utf16le" // with a byte order mark
	UTF16BE     Encoding = "utf16be" // with a byte order mark
	GBK         Encoding = "gbk"
	GB18030     Encoding = "gb18030"
	Big5        Encoding = "big5"
	ShiftJIS    Encoding = "shift_jis"
	EUCJP       Encoding = "euc-jp"
	EUCKR       Encoding = "euc-kr"
	KOI8R       Encoding = "koi8-r"
	Windows1250 Encoding = "windows-1250"
	Windows1251 Encoding = "windows-1251"
	Windows1252 Encoding = "windows-1252"
	Windows1253 Encoding = "windows-1253"
	Windows1254 Encoding = "windows-1254"
	Windows1255 Encoding = "windows-1255"
	Windows1256 Encoding = "windows-1256"
	Windows1257 Encoding = "windows-1257"
	// Several is the encoding of a text with lines in UTF-8 and lines in another encoding. Such text can only be read.
	Several Encoding = "mixed"
)

const (
	bomUTF8    = "\xef\xbb\xbf"
	bomUTF16LE = "\xff\xfe"
	bomUTF16BE = "\xfe\xff"
	bomUTF32LE = "\xff\xfe\x00\x00"
)

// Text is the decoded text of a file. It contains the information that is necessary to encode a changed text in the
// same manner.
type Text struct {
	// Content is UTF-8 without a byte order mark. It keeps the line endings of the file. It can share memory with the
	// encoded bytes.
	Content  []byte
	Encoding Encoding

	charset *charset        // the detected encoding; nil for UTF-8, UTF-16, a guess and a mixture
	forms   map[rune]string // characters whose bytes in the file differ from those of charset's encoder
	flaw    string          // the reason why the text cannot be encoded; empty for most files
	high    *[128]bool      // the non-ASCII bytes of the file; nil unless the encoding is a guess
	unsure  bool            // true if a part of a mixture is a guess
}

// MaxDecoded is the maximum size in bytes of text in an encoding other than UTF-8. The limit is needed because such
// text is in memory twice.
const MaxDecoded = 32 << 20

// Decode decodes the bytes of a file. [Text.Encode] of the same content returns the same bytes. Decode supports UTF-8,
// UTF-16 with a byte order mark, and the other encodings of this package if their detection is certain. Otherwise it
// decodes the bytes as Windows-1252, unless they are [Binary]. See [Text.Guessed] and [Text.Editable]. Binary data, and
// more than [MaxDecoded] bytes that are not UTF-8, result in an error of kind InvalidArguments.
func Decode(data []byte) (*Text, error) {
	switch {
	case bytes.HasPrefix(data, []byte(bomUTF32LE)):
		return nil, undecodable("it is UTF-32")
	case len(data) > MaxDecoded &&
		(bytes.HasPrefix(data, []byte(bomUTF16LE)) || bytes.HasPrefix(data, []byte(bomUTF16BE))):
		return nil, tooLargeToDecode("it is UTF-16", "UTF-16", len(data))
	case bytes.HasPrefix(data, []byte(bomUTF16LE)):
		return decodeUTF16(data[2:], binary.LittleEndian, UTF16LE)
	case bytes.HasPrefix(data, []byte(bomUTF16BE)):
		return decodeUTF16(data[2:], binary.BigEndian, UTF16BE)
	case bytes.HasPrefix(data, []byte(bomUTF8)):
		if !utf8.Valid(data) {
			return nil, undecodable("it begins as UTF-8 but has invalid bytes")
		}
		return &Text{Content: data[len(bomUTF8):], Encoding: UTF8BOM}, nil
	case utf8.Valid(data):
		return &Text{Content: data, Encoding: UTF8}, nil
	case Binary(data):
		return nil, undecodable("it is binary")
	case len(data) > MaxDecoded:
		return nil, tooLargeToDecode("it is not UTF-8", "ENCODING", len(data))
	}
	return decodeDetected(data), nil
}

// decodeDetected decodes a text that is not UTF-8 in the encoding that it probably has.
func decodeDetected(data []byte) *Text {
	if m := mixed(data); m != nil {
		return decodeMixed(data, m)
	}
	if t := detect(data); t != nil {
		return t
	}
	t := &Text{Content: decodeWindows1252(data), Encoding: Windows1252, high: new([128]bool)}
	for _, b := range data {
		if b >= 0x80 {
			t.high[b-0x80] = true
		}
	}
	return t
}

// Guessed reports whether the encoding of the text, or of some lines of a mixture, is a guess. In this case, Encode
// rejects non-ASCII characters that the file does not already contain, because the real encoding can represent them by
// other bytes.
func (t *Text) Guessed() bool { return t.high != nil || t.unsure }

// Detected reports whether the encoding is certain and was detected from the characters of the text.
func (t *Text) Detected() bool { return t.charset != nil }

// Editable returns an error with the reason if the text cannot be encoded, because it mixes encodings or has bytes that
// would be lost.
func (t *Text) Editable() error {
	if t.flaw == "" {
		return nil
	}
	return tool.Errorf(tool.InvalidArguments, "The file cannot be changed as text, because its encoding is not uniform: %s. An edit could damage it. Convert the file to UTF-8 in the shell first, with iconv.", t.flaw)
}

// Flaw describes why the text is not [Text.Editable]. It is empty for most texts.
func (t *Text) Flaw() string { return t.flaw }

// Encode encodes content, which must be UTF-8, in the original encoding. It returns an error for characters that the
// encoding cannot represent, and for a text that is not [Text.Editable].
func (t *Text) Encode(content []byte) ([]byte, error) {
	if !utf8.Valid(content) {
		return nil, tool.Errorf(tool.InvalidArguments, "The new content is not valid UTF-8. Give text in UTF-8.")
	}
	switch {
	case t.flaw != "":
		return nil, t.Editable()
	case t.charset != nil:
		return t.charset.encode(content, t.forms)
	case t.Encoding == UTF16LE:
		return encodeUTF16(content, binary.LittleEndian, bomUTF16LE), nil
	case t.Encoding == UTF16BE:
		return encodeUTF16(content, binary.BigEndian, bomUTF16BE), nil
	case t.Encoding == UTF8BOM:
		return append([]byte(bomUTF8), content...), nil
	case t.Encoding == Windows1252:
		return t.encodeWindows1252(content)
	}
	return content, nil
}

func decodeUTF16(data []byte, order binary.ByteOrder, enc Encoding) (*Text, error) {
	if len(data)%2 != 0 {
		return nil, undecodable("it begins as UTF-16 but has half a character at its end")
	}
	// Compute the exact size first. Growing a large buffer would take several times the memory.
	size := 0
	for i := 0; i < len(data); i += 2 {
		size += utf8Len(order.Uint16(data[i:]))
	}
	out := make([]byte, 0, size)
	for i := 0; i < len(data); i += 2 {
		r := rune(order.Uint16(data[i:]))
		if utf16.IsSurrogate(r) {
			if i+4 > len(data) {
				return nil, undecodable("it begins as UTF-16 but has half a surrogate pair")
			}
			if r = utf16.DecodeRune(r, rune(order.Uint16(data[i+2:]))); r == utf8.RuneError {
				return nil, undecodable("it begins as UTF-16 but has half a surrogate pair")
			}
			i += 2
		}
		out = utf8.AppendRune(out, r)
	}
	return &Text{Content: out, Encoding: enc}, nil
}

// utf8Len returns the number of UTF-8 bytes for one unit of UTF-16. A surrogate is half of a character, and such a
// character takes 4 bytes.
func utf8Len(unit uint16) int {
	if r := rune(unit); !utf16.IsSurrogate(r) {
		return utf8.RuneLen(r)
	}
	return 2
}

func encodeUTF16(content []byte, order binary.AppendByteOrder, bom string) []byte {
	size := len(bom)
	for _, r := range string(content) {
		size += 2 * utf16.RuneLen(r)
	}
	out := append(make([]byte, 0, size), bom...)
	for len(content) > 0 {
		r, n := utf8.DecodeRune(content)
		content = content[n:]
		if r1, r2 := utf16.EncodeRune(r); r1 != utf8.RuneError {
			out = order.AppendUint16(order.AppendUint16(out, uint16(r1)), uint16(r2))
			continue
		}
		out = order.AppendUint16(out, uint16(r))
	}
	return out
}

func tooLargeToDecode(why, encoding string, size int) error {
	return tool.Errorf(tool.InvalidArguments, "The file cannot be read as text: %s and has %s, and the limit is %s. Convert the file to UTF-8 first: iconv -f %s -t UTF-8 FILE > COPY",
		why, FormatSize(int64(size)), FormatSize(MaxDecoded), encoding)
}

func undecodable(why string) error {
	return tool.Errorf(tool.InvalidArguments, "The file cannot be read as text: %s. Convert the file to UTF-8 first, or use a shell command.", why)
}
