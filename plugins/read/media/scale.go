package media

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"

	"golang.org/x/image/draw"
)

const (
	// MaxSide is the maximum width and height of an image in pixels. The APIs of models scale a larger image down or
	// refuse the image.
	MaxSide = 2000
	// maxPixels is the maximum number of pixels of an image that is scaled down. It limits the memory for decoding the
	// image.
	maxPixels = 100_000_000
	quality   = 90
)

// ErrTooManyPixels is the error for an image that is too large to be scaled.
var ErrTooManyPixels = errors.New("media: the image has too many pixels")

// Scaled is an image whose sides have at most MaxSide pixels.
type Scaled struct {
	Data          []byte
	MediaType     string
	Width, Height int
}

// Scale scales down a PNG, JPEG or GIF image that is larger than MaxSide. For a smaller image or another kind, it
// returns nil. Of an animated GIF, it keeps only the first picture. The result has the format JPEG if the image is a
// JPEG, otherwise PNG.
func Scale(kind Kind, data []byte) (*Scaled, error) {
	width, height, _ := Dimensions(kind, data)
	if max(width, height) <= MaxSide {
		return nil, nil
	}
	if int64(width)*int64(height) > maxPixels {
		return nil, ErrTooManyPixels
	}
	decode := map[string]func(*bytes.Reader) (image.Image, error){
		"image/png":  func(r *bytes.Reader) (image.Image, error) { return png.Decode(r) },
		"image/jpeg": func(r *bytes.Reader) (image.Image, error) { return jpeg.Decode(r) },
		"image/gif":  func(r *bytes.Reader) (image.Image, error) { return gif.Decode(r) },
	}[kind.MediaType]
	from, err := decode(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("media: %w", err)
	}
	factor := float64(MaxSide) / float64(max(width, height))
	s := &Scaled{
		MediaType: "image/png", Width: max(1, int(float64(width)*factor)), Height: max(1, int(float64(height)*factor)),
	}
	to := image.NewRGBA(image.Rect(0, 0, s.Width, s.Height))
	draw.CatmullRom.Scale(to, to.Bounds(), from, from.Bounds(), draw.Src, nil)
	var out bytes.Buffer
	if kind.MediaType == "image/jpeg" {
		s.MediaType = "image/jpeg"
		err = jpeg.Encode(&out, to, &jpeg.Options{Quality: quality})
	} else {
		err = png.Encode(&out, to)
	}
	s.Data = out.Bytes()
	return s, err
}
