//go:build !race

package files

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"strings"
	"testing"

	"toolhost.dev/plugins/read/media"
	"toolhost.dev/sdk/tool"
)

// TestOracleLargeImage checks that an image with many pixels is scaled down and that the result reports the scaling
// (U12).
func TestOracleLargeImage(t *testing.T) {
	h := newHost(t)
	var buf bytes.Buffer
	must(t, png.Encode(&buf, image.NewGray(image.Rect(0, 0, 9000, 4500))))
	write(t, h, "big.png", buf.String())
	res := h.Call("read", args{"file_path": "big.png"})
	if res.Error != nil || len(res.Attachments) != 1 || !strings.Contains(res.Output, "9000 × 4500 pixels") || !strings.Contains(res.Output, "scaled down to 2000 × 1000") {
		t.Fatalf("%v %s", res.Error, res.Output)
	}
	if c, err := png.DecodeConfig(bytes.NewReader(res.Attachments[0].Content)); err != nil || c.Width != media.MaxSide || c.Height != 1000 {
		t.Errorf("%+v %v", c, err)
	}
	buf.Reset()
	must(t, png.Encode(&buf, image.NewPaletted(image.Rect(0, 0, 12_000, 12_000), color.Palette{color.Black})))
	write(t, h, "bigger.png", buf.String())
	h.Refuses("read", args{"file_path": "bigger.png"}, tool.InvalidArguments, "too large to be scaled", "convert IN")
}
