// Package media recognizes images and documents by their first bytes.
package media

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
)

// Kind is a kind of file that a model receives as an attachment instead of text.
type Kind struct {
	// Name is the name of the kind, such as "PNG image".
	Name string
	// MediaType is a MIME type such as "image/png".
	MediaType string
	// Image is true for an image and false for a document.
	Image bool
}

type signature struct {
	kind  Kind
	at    int
	bytes string
	also  string // bytes that are required at offset 8, for container formats
}

var signatures = []signature{
	{Kind{"PNG image", "image/png", true}, 0, "\x89PNG\r\n\x1a\n", ""},
	{Kind{"JPEG image", "image/jpeg", true}, 0, "\xff\xd8\xff", ""},
	{Kind{"GIF image", "image/gif", true}, 0, "GIF87a", ""},
	{Kind{"GIF image", "image/gif", true}, 0, "GIF89a", ""},
	{Kind{"WebP image", "image/webp", true}, 0, "RIFF", "WEBP"},
	{Kind{"AVIF image", "image/avif", true}, 4, "ftyp", "avif"},
	{Kind{"HEIC image", "image/heic", true}, 4, "ftyp", "heic"},
	{Kind{"TIFF image", "image/tiff", true}, 0, "II*\x00", ""},
	{Kind{"TIFF image", "image/tiff", true}, 0, "MM\x00*", ""},
	{Kind{"icon", "image/x-icon", true}, 0, "\x00\x00\x01\x00", ""},
	{Kind{"PDF document", "application/pdf", false}, 0, "%PDF-", ""},
}

// Sniff returns the kind of a media file that begins with head. If the kind is unknown, ok is false.
func Sniff(head []byte) (kind Kind, ok bool) {
	for _, s := range signatures {
		if len(head) >= s.at && bytes.HasPrefix(head[s.at:], []byte(s.bytes)) &&
			(s.also == "" || len(head) >= 12 && string(head[8:12]) == s.also) {
			return s.kind, true
		}
	}
	// A text can also begin with the two letters of a bitmap. Therefore check that two reserved fields of the header
	// are zero.
	if len(head) > 18 && head[0] == 'B' && head[1] == 'M' && binary.LittleEndian.Uint32(head[6:]) == 0 {
		return Kind{"BMP image", "image/bmp", true}, true
	}
	return Kind{}, false
}

// gifHeader is the number of bytes of a GIF image up to the end of its size.
const gifHeader = 13

// Dimensions returns the width and height of a PNG, JPEG or GIF image. They are zero if they cannot be read. If the
// data ends before them, "cut" is true.
func Dimensions(kind Kind, data []byte) (width, height int, cut bool) {
	r := bytes.NewReader(data)
	decode := png.DecodeConfig
	switch kind.MediaType {
	case "image/png":
	case "image/jpeg":
		decode = jpeg.DecodeConfig
	case "image/gif":
		decode, cut = gif.DecodeConfig, len(data) < gifHeader
	default:
		return 0, 0, false
	}
	c, err := decode(r)
	if err != nil {
		return 0, 0, cut || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
	}
	return c.Width, c.Height, false
}
