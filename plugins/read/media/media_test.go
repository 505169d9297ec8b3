package media

import (
	"bytes"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"testing"
)

func TestRealImages(t *testing.T) {
	picture := image.NewPaletted(image.Rect(0, 0, 30, 20), palette.Plan9)
	for want, encode := range map[string]func(io.Writer) error{
		"image/png":  func(w io.Writer) error { return png.Encode(w, picture) },
		"image/jpeg": func(w io.Writer) error { return jpeg.Encode(w, picture, nil) },
		"image/gif":  func(w io.Writer) error { return gif.Encode(w, picture, nil) },
	} {
		var b bytes.Buffer
		if err := encode(&b); err != nil {
			t.Fatal(err)
		}
		kind, ok := Sniff(b.Bytes())
		if !ok || kind.MediaType != want || !kind.Image {
			t.Errorf("%s: got %+v, %v", want, kind, ok)
		}
		if w, h, cut := Dimensions(kind, b.Bytes()); w != 30 || h != 20 || cut {
			t.Errorf("%s: %dx%d, %v", want, w, h, cut)
		}
		if w, h, cut := Dimensions(kind, b.Bytes()[:9]); w != 0 || h != 0 || !cut {
			t.Errorf("%s: the beginning alone has dimensions", want)
		}
	}
}

func TestSniff(t *testing.T) {
	for head, want := range map[string]string{
		"":                             "",
		"plain text":                   "",
		"%PDF-1.7\n":                   "application/pdf",
		"%PD":                          "",
		"RIFF\x00\x00\x00\x00WEBPVP8 ": "image/webp",
		"RIFF\x00\x00\x00\x00WAVEfmt ": "",
		"RIFF":                         "",
		"\x00\x00\x00\x20ftypavif":     "image/avif",
		"\x00\x00\x00\x20ftypmp42":     "",
		"II*\x00":                      "image/tiff",
		"\x00\x00\x01\x00":             "image/x-icon",
		"BM: a text that begins so":    "",
		"BM\x00\x10\x00\x00\x00\x00\x00\x00\x36\x00\x00\x00\x28\x00\x00\x00\x10": "image/bmp",
		"GIF89a": "image/gif",
		"GIF90a": "",
	} {
		if kind, ok := Sniff([]byte(head)); kind.MediaType != want || ok != (want != "") {
			t.Errorf("%q: got %+v", head, kind)
		}
	}
}
