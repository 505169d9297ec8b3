package files

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"

	"toolhost.dev/plugins/read/media"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

// limitOf returns the maximum size of a file that is attached. For image formats that can be scaled down, it is higher
// than the maximum size of an attached image.
func limitOf(kind media.Kind) int64 {
	switch {
	case slices.Contains([]string{"image/png", "image/jpeg", "image/gif"}, kind.MediaType):
		return maxScaled
	case kind.Image:
		return maxImage
	}
	return maxDocument
}

// attach returns a result with the image or document as an attachment.
func (r *request) attach(snap *workspace.Snapshot, kind media.Kind) (*sdk.Result, error) {
	size := int64(len(snap.Data))
	if size > limitOf(kind) {
		return nil, r.tooLargeToAttach(kind, size)
	}
	about := fmt.Sprintf("%s is a %s", r.name, kind.Name)
	switch w, h, cut := media.Dimensions(kind, snap.Data); {
	case cut:
		return nil, sdk.Errorf(tool.InvalidArguments, "%s begins as a %s, but ends after %s, before its size in pixels. Nothing is attached. Make the file again; --encoding base64 reads what is there.", r.name, kind.Name, text.FormatSize(size))
	case w > 0:
		about += fmt.Sprintf(", %d × %d pixels", w, h)
	}
	a := sdk.Attachment{Type: "file", Path: r.path.String(), MediaType: kind.MediaType, Content: snap.Data}
	how := "It is attached."
	if kind.Image {
		a.Type = "image"
		scaled, err := media.Scale(kind, snap.Data)
		switch {
		case errors.Is(err, media.ErrTooManyPixels):
			return nil, sdk.Errorf(tool.InvalidArguments, "%s, which is too large to be scaled down. Make a smaller copy with a shell command (convert IN -resize 1600x1600 OUT) and read the copy.", about)
		case err == nil && scaled != nil:
			a.Content, a.MediaType = scaled.Data, scaled.MediaType
			how = fmt.Sprintf("A copy that is scaled down to %d × %d pixels is attached; to see details, cut out a part with a shell command (convert IN -crop WxH+X+Y OUT).", scaled.Width, scaled.Height)
		}
		if len(a.Content) > maxImage {
			return nil, r.tooLargeToAttach(kind, size)
		}
	}
	return &sdk.Result{
		Output: fmt.Sprintf("%s, %s. %s", about, text.FormatSize(size), how), Title: "Read " + r.name,
		Data:        sdk.Data(readData{Path: r.path.String(), Encoding: "binary"}),
		Attachments: []sdk.Attachment{a}, Effects: []tool.Effect{snap.Effect()},
	}, nil
}

func (r *request) tooLargeToAttach(kind media.Kind, size int64) error {
	next := "Make a smaller copy with a shell command (convert IN -resize 1600x1600 OUT) and read the copy."
	if !kind.Image {
		next = "Extract the text of the pages that you need with a shell command (pdftotext -f FIRST -l LAST FILE -)."
	}
	limit := limitOf(kind)
	if kind.Image && size <= limit {
		limit = maxImage
	}
	return sdk.Errorf(tool.InvalidArguments, "%s is a %s of %s; at most %s are attached. %s", r.name, kind.Name, text.FormatSize(size), text.FormatSize(limit), next)
}

// base64 returns a result with the bytes of the file in base64.
func (r *request) base64(snap *workspace.Snapshot) *sdk.Result {
	return &sdk.Result{
		Output: base64.StdEncoding.EncodeToString(snap.Data), Title: "Read " + r.name,
		Data: sdk.Data(readData{Path: r.path.String(), Encoding: "base64"}), Effects: []tool.Effect{snap.Effect()},
	}
}
