package text

import (
	"bytes"
	"errors"
	"fmt"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"toolhost.dev/sdk/tool"
)

// charset is an encoding without a byte order mark. It is detected from the content of a text.
type charset struct {
	name  Encoding
	codec encoding.Encoding
	// scripts contains the scripts of the languages that use the charset. It is nil for a charset of Latin letters.
	scripts []*unicode.RangeTable
	// wide is true if characters can have several bytes.
	wide bool
	// detector contains the names that the detector uses.
	detector []string
}

var (
	chinese  = []*unicode.RangeTable{unicode.Han}
	japan    = []*unicode.RangeTable{unicode.Hiragana, unicode.Katakana, unicode.Han}
	korea    = []*unicode.RangeTable{unicode.Hangul, unicode.Han}
	cyrillic = []*unicode.RangeTable{unicode.Cyrillic}
)

var (
	gbk     = &charset{GBK, simplifiedchinese.GBK, chinese, true, []string{"GB2312"}}
	gb18030 = &charset{GB18030, simplifiedchinese.GB18030, chinese, true, nil}
	eucJP   = &charset{EUCJP, japanese.EUCJP, japan, true, []string{"EUC-JP"}}
	eucKR   = &charset{EUCKR, korean.EUCKR, korea, true, []string{"EUC-KR", "CP949"}}
	shiftJS = &charset{ShiftJIS, japanese.ShiftJIS, japan, true, []string{"Shift_JIS", "CP932"}}
	arabic  = &charset{Windows1256, charmap.Windows1256, []*unicode.RangeTable{unicode.Arabic}, false, nil}
)

// charsets contains the charsets that are detected by their script. Charsets of Latin letters are in latinCharsets.
var charsets = []*charset{
	gbk, gb18030, eucJP, eucKR, shiftJS, arabic,
	{Big5, traditionalchinese.Big5, chinese, true, []string{"Big5"}},
	{KOI8R, charmap.KOI8R, cyrillic, false, []string{"KOI8-R"}},
	// The detector confuses the two charsets in the list, because their lower-case letters are the same.
	{Windows1251, charmap.Windows1251, cyrillic, false, []string{"Windows-1251", "x-mac-cyrillic"}},
	{Windows1253, charmap.Windows1253, []*unicode.RangeTable{unicode.Greek}, false, []string{"Windows-1253", "ISO-8859-7"}},
	{Windows1255, charmap.Windows1255, []*unicode.RangeTable{unicode.Hebrew}, false, []string{"Windows-1255", "ISO-8859-8"}},
}

// decode decodes data. The result "exact" is true if every byte belongs to a character and encode restores the same
// bytes. An edit then changes no byte of other text, because the encoding of a character does not depend on its
// neighbors.
func (c *charset) decode(data []byte) (content []byte, exact bool) {
	content, err := c.codec.NewDecoder().Bytes(data)
	if err != nil || bytes.ContainsRune(content, utf8.RuneError) {
		return content, false
	}
	back, err := c.codec.NewEncoder().Bytes(content)
	return content, err == nil && bytes.Equal(back, data)
}

// read decodes data that can contain some invalid bytes. The data can also contain characters for which the charset has
// several byte sequences. If more than one character in 20 is invalid, read returns nil.
func (c *charset) read(data []byte) *Text {
	content, exact := c.decode(data)
	t := &Text{Content: content, Encoding: c.name, charset: c}
	if exact {
		return t
	}
	if invalid := bytes.Count(content, []byte(string(utf8.RuneError))); invalid > 0 {
		if invalid*20 > utf8.RuneCount(content)-countASCII(data) {
			return nil
		}
		at := bytes.IndexRune(content, utf8.RuneError)
		t.flaw = fmt.Sprintf("most of it is %s, but line %d has bytes that are not", c.name, bytes.Count(content[:at], []byte{'\n'})+1)
		return t
	}
	t.forms, t.flaw = c.variants(data)
	return t
}

// variants returns the byte sequences in data that differ from the sequences of the encoder, indexed by character. If
// these sequences cannot be kept, the result "flaw" is the reason.
func (c *charset) variants(data []byte) (forms map[rune]string, flaw string) {
	forms = make(map[rune]string)
	seen := make(map[string]bool)
	for line, rest := 1, data; len(rest) > 0; {
		if rest[0] < utf8.RuneSelf {
			if rest[0] == '\n' {
				line++
			}
			rest = rest[1:]
			continue
		}
		char := string(rest[:min(c.length(rest), len(rest))])
		rest = rest[len(char):]
		if seen[char] {
			continue
		}
		seen[char] = true
		decoded, err := c.codec.NewDecoder().String(char)
		r, size := utf8.DecodeRuneInString(decoded)
		if err != nil || size != len(decoded) {
			return nil, fmt.Sprintf("line %d has a sequence of characters in %s that is not supported", line, c.name)
		}
		if other, known := forms[r]; known && other != char {
			return nil, fmt.Sprintf("it writes the character %q with several byte sequences of %s (line %d has the second one), so a change could not keep them", r, c.name, line)
		}
		forms[r] = char
	}
	for r, char := range forms {
		if back, err := c.codec.NewEncoder().String(string(r)); err == nil && back == char {
			delete(forms, r)
		}
	}
	return forms, ""
}

// length returns the number of bytes of the character at the beginning of data.
func (c *charset) length(data []byte) int {
	switch b := data[0]; {
	case !c.wide, c.name == ShiftJIS && b >= 0xa0 && b < 0xe0, b == 0x80 || b == 0xff:
		return 1
	case c.name == EUCJP && b == 0x8f:
		return 3
	case c.name == GB18030 && len(data) > 1 && data[1] >= '0' && data[1] <= '9':
		return 4
	}
	return 2
}

func countASCII(data []byte) (n int) {
	for _, b := range data {
		if b < utf8.RuneSelf {
			n++
		}
	}
	return n
}

// encode encodes content, which must be valid UTF-8. For a character in forms, it uses the byte sequence in forms
// instead of the encoder's sequence. If the charset lacks a character, encode returns an error for the first such
// character.
func (c *charset) encode(content []byte, forms map[rune]string) ([]byte, error) {
	if bytes.ContainsRune(content, utf8.RuneError) { // the replacement character marks invalid bytes, even if the charset contains it
		return nil, c.foreign(content, errMissing)
	}
	out := make([]byte, 0, len(content))
	isForm := func(r rune) bool { return forms[r] != "" }
	for rest := content; len(rest) > 0; {
		n := len(rest)
		if len(forms) > 0 {
			if n = bytes.IndexFunc(rest, isForm); n < 0 {
				n = len(rest)
			}
		}
		data, err := c.codec.NewEncoder().Bytes(rest[:n])
		if err != nil {
			return nil, c.foreign(content, err)
		}
		out, rest = append(out, data...), rest[n:]
		if len(rest) > 0 {
			r, size := utf8.DecodeRune(rest)
			out, rest = append(out, forms[r]...), rest[size:]
		}
	}
	return out, nil
}

var errMissing = errors.New("it contains U+FFFD")

// foreign returns the error for content that cannot be encoded. The error names the first character that the charset
// lacks.
func (c *charset) foreign(content []byte, err error) error {
	line := 1
	for _, r := range string(content) {
		if r == '\n' {
			line++
		}
		if r < utf8.RuneSelf {
			continue
		}
		if _, err := c.codec.NewEncoder().String(string(r)); err != nil || r == utf8.RuneError {
			return tool.Errorf(tool.InvalidArguments, "The file is encoded in %s, which has no character %q (line %d of the new content). Use characters of %s, or convert the file to UTF-8 first (iconv -f %s -t UTF-8 FILE > COPY).",
				c.name, r, line, c.name, c.name)
		}
	}
	return fmt.Errorf("the content cannot be encoded in %s: %w", c.name, err)
}
