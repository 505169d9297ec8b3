package files

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace/text"
)

// decoded is the content of a file after conversion to UTF-8 text.
type decoded struct {
	content  []byte
	encoding string
	guessed  bool
	// detected is true if the encoding was detected from the content.
	detected bool
	// If the encoding of the text is not uniform, flaw describes the problem. Such a text cannot be edited. For most
	// files, flaw is empty.
	flaw   string
	ending text.LineEnding
	cells  *int   // number of cells of a notebook; nil for any other file
	note   string // additional note for the model; empty for most files
}

// decode decodes bytes in the requested encoding.
func (r *request) decode(data []byte) (decoded, error) {
	if text.Binary(data) || r.in.Encoding == "ascii" && bytes.IndexByte(data, 0) >= 0 {
		return decoded{}, r.binary(int64(len(data)))
	}
	switch r.in.Encoding {
	case "ascii":
		return shown(escapeASCII(data), "ascii", false), nil
	case "utf8":
		if !utf8.Valid(data) {
			return decoded{}, r.notUTF8(data)
		}
	}
	t, err := text.Decode(data)
	if err != nil {
		return decoded{}, sdk.Errorf(tool.InvalidArguments, "%s cannot be shown. %w To read the bytes, use encoding=base64.", r.name, err)
	}
	d := shown(t.Content, string(t.Encoding), t.Guessed())
	d.detected, d.flaw = t.Detected(), t.Flaw()
	return d, nil
}

func shown(content []byte, encoding string, guessed bool) decoded {
	d := decoded{content: content, encoding: encoding, guessed: guessed, ending: text.LF}
	if bytes.IndexByte(content, '\r') >= 0 {
		d.ending = text.CountLineEndings(content).Kind()
	}
	return d
}

// binary returns the error for a file that is not text.
func (r *request) binary(size int64) error {
	return sdk.Errorf(tool.InvalidArguments, "%s is binary (%s) and has no lines to show. Use encoding=base64 to read its bytes (up to %s), or a shell command such as file, strings or xxd.",
		r.name, text.FormatSize(size), text.FormatSize(maxBase64))
}

func (r *request) notUTF8(data []byte) error {
	at := 0
	for at < len(data) {
		c, size := utf8.DecodeRune(data[at:])
		if c == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return sdk.Errorf(tool.InvalidArguments, "%s is not valid UTF-8: the byte 0x%02x in line %d is not a character. Use encoding=auto to read the file in its likely encoding, or encoding=ascii to see such bytes as \\xHH.",
		r.name, data[at], bytes.Count(data[:at], []byte{'\n'})+1)
}

// escapeASCII replaces every byte above 0x7F by \xHH.
func escapeASCII(data []byte) []byte {
	i := bytes.IndexFunc(data, func(r rune) bool { return r >= utf8.RuneSelf })
	if i < 0 {
		return data
	}
	out := append(make([]byte, 0, len(data)+len(data)/4), data[:i]...)
	for _, b := range data[i:] {
		if b < utf8.RuneSelf {
			out = append(out, b)
		} else {
			out = fmt.Appendf(out, `\x%02x`, b)
		}
	}
	return out
}
