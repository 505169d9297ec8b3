package files

import (
	"encoding/base64"
	"fmt"

	"toolhost.dev/plugins/read/media"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"
)

func limitOf(kind media.Kind) int64 {
	if kind.Image {
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
	if w, h, ok := media.Dimensions(kind, snap.Data); ok {
		about += fmt.Sprintf(", %d × %d pixels", w, h)
	}
	a := sdk.Attachment{Type: "file", Path: r.path.String(), MediaType: kind.MediaType, Content: snap.Data}
	if kind.Image {
		a.Type = "image"
	}
	return &sdk.Result{
		Output: fmt.Sprintf("%s, %s. It is attached.", about, text.FormatSize(size)), Title: "Read " + r.name,
		Data:        sdk.Data(readData{Path: r.path.String(), Encoding: "binary"}),
		Attachments: []sdk.Attachment{a}, Effects: []tool.Effect{snap.Effect()},
	}, nil
}

func (r *request) tooLargeToAttach(kind media.Kind, size int64) error {
	next := "Make a smaller copy with a shell command (convert IN -resize 1600x1600 OUT) and read the copy."
	if !kind.Image {
		next = "Extract the text of the pages that you need with a shell command (pdftotext -f FIRST -l LAST FILE -)."
	}
	return sdk.Errorf(tool.InvalidArguments, "%s is a %s of %s; at most %s are attached. %s", r.name, kind.Name, text.FormatSize(size), text.FormatSize(limitOf(kind)), next)
}

// base64 returns a result with the bytes of the file in base64.
func (r *request) base64(snap *workspace.Snapshot) *sdk.Result {
	return &sdk.Result{
		Output: base64.StdEncoding.EncodeToString(snap.Data), Title: "Read " + r.name,
		Data: sdk.Data(readData{Path: r.path.String(), Encoding: "base64"}), Effects: []tool.Effect{snap.Effect()},
	}
}
