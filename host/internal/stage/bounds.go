package stage

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
)

// Limits of a result, in bytes.
const (
	// maxText limits the text. A longer text is shortened to the length shortText.
	maxText   = 256 << 10
	shortText = 50_000
	// maxData limits the structured data, and the data of an error.
	maxData = 1 << 20
	// maxParts limits the attachments and the other parts together. Models take images of about this size.
	maxParts = 5 << 20
	// maxPart is the size up to which a part stays in a result whose parts are too large.
	maxPart = 64 << 10
	// maxCount limits the number of attachments, and of all parts. maxFiles limits the number of files with
	// attachments.
	maxCount = 500
	maxFiles = 100
	maxTitle = 1 << 10 // also limits a media type
	maxPath  = 4 << 10
	// maxExchange limits the answer to a request of an MCP client that is not a call, such as a resource.
	maxExchange = 16 << 20
	// largeResult is the size of a result after which unused memory is returned to the system.
	largeResult = 8 << 20
)

// ResultStores returns the store for the files with the long results of an owner.
type ResultStores interface {
	Store(owner string) *spill.Store
}

// Bounds shortens the results of calls; see [ApplyBounds]. It is outside of the stages that can still replace or
// withhold a result, so that no file has what the caller does not get. Without stores, it shortens nothing.
func Bounds(stores ResultStores) Stage {
	if stores == nil {
		return Stage{}
	}
	return Stage{Name: "bounds", Wrap: func(next Handler) Handler {
		return func(ctx context.Context, c *call.Call) *tool.Result { return ApplyBounds(c, next(ctx, c), stores) }
	}}
}

// ApplyBounds shortens the result of a call and returns it. Without stores, it shortens nothing. The result of a child
// call stays complete, because its reader is a program.
func ApplyBounds(c *call.Call, res *tool.Result, stores ResultStores) *tool.Result {
	if resultSize(res) > largeResult {
		releaseMemory()
	}
	switch {
	case c.Identity.Depth > 0 || stores == nil:
	case c.Request.Exchange != nil:
		boundExchange(res, c.Name())
	default:
		b := bounds{res: res, name: c.Name(), declared: c.Identity.Tool.Definition.Output != nil,
			store: func() *spill.Store { return stores.Store(c.Request.Session.Principal.Owner()) }}
		b.apply()
	}
	return res
}

// resultSize returns about how much memory a result uses.
func resultSize(res *tool.Result) int {
	n := len(res.Output) + len(res.Data) + len(res.Title)
	if res.Error != nil {
		n += len(res.Error.Message) + len(res.Error.Data)
	}
	for _, a := range res.Attachments {
		n += len(a.Content)
	}
	for _, p := range res.Contents {
		n += len(p.Block)
	}
	return n
}

// boundExchange replaces the result of an exchange that is too large by an error. Only its client could read a file.
func boundExchange(res *tool.Result, name string) {
	if len(res.Data) <= maxExchange {
		return
	}
	*res = tool.Result{Run: res.Run,
		Error: tool.Errorf(tool.ExecutionFailed, "The answer about %s has %d bytes, and the limit is %d MiB. Ask for less.", name, len(res.Data), maxExchange>>20).From(tool.SourceHost)}
}

// bounds shortens one result. It changes only the result, and no value to which the result points.
type bounds struct {
	res      *tool.Result
	name     string // of the tool
	declared bool   // whether callers rely on structured data
	store    func() *spill.Store
	files    []string
}

func (b *bounds) apply() {
	res := b.res
	if len(res.Title) > maxTitle {
		res.Title = strings.ToValidUTF8(res.Title[:maxTitle], "") + "…"
	}
	b.parts()
	res.Output = b.text(res.Output)
	if e := res.Error; e != nil && (len(e.Message) > maxText || len(e.Data) > maxData) {
		short := *e
		short.Message = b.text(e.Message)
		res.Error = &short
		if len(e.Data) > maxData {
			short.Data = nil
			note, _ := b.save("The data of the error", "data.json", e.Data)
			call.NoteHint(res, note)
		}
	}
	if len(res.Data) > maxData {
		data := res.Data
		res.Data = nil
		kept, _ := b.save("The structured result", "data.json", data)
		if b.declared && res.Error == nil {
			res.Error = tool.Errorf(tool.ExecutionFailed, "%s ran. %s.\n%s", b.name, kept, res.Output).
				From(tool.SourceHost)
			res.Output = ""
		} else {
			call.NoteHint(res, kept)
		}
	}
	if b.files != nil {
		call.Annotate(res, "files", b.files)
	}
}

// text returns a text, or its beginning and its end with a notice about the file that has the whole text.
func (b *bounds) text(s string) string {
	if len(s) <= maxText {
		return s
	}
	b.res.Contents = nil // they count the bytes of the text
	buffer := spill.NewBuffer("output", b.store())
	_, _ = buffer.WriteString(s) // the error is always nil
	short := buffer.Text(shortText)
	if short.Path != "" {
		b.files = append(b.files, short.Path)
	}
	return short.Shown
}

// parts moves the large attachments and all blocks to files if all parts together are too large or too many.
func (b *bounds) parts() {
	res, total := b.res, 0
	res.Attachments = slices.Clone(res.Attachments)
	for i := range res.Attachments {
		a := &res.Attachments[i]
		if len(a.MediaType) > maxTitle || len(a.Path) > maxPath {
			a.MediaType, a.Path = "", ""
		}
		total += len(a.Content)
	}
	for _, p := range res.Contents {
		if p.Attachment == 0 { // the block of an attachment repeats its content
			total += len(p.Block)
		}
	}
	if total <= maxParts && len(res.Attachments) <= maxCount && len(res.Contents) <= maxCount {
		return
	}
	b.blocks()
	b.attachments()
}

// blocks moves the blocks that no other field of the result has to one file, as an array.
func (b *bounds) blocks() {
	var blocks [][]byte
	for _, p := range b.res.Contents {
		if p.Attachment == 0 && p.Text == 0 && len(p.Block) > 0 {
			blocks = append(blocks, p.Block)
		}
	}
	b.res.Contents = nil
	if blocks == nil {
		return
	}
	content := slices.Concat([]byte("["), bytes.Join(blocks, []byte(",\n")), []byte("]\n"))
	what := "A part of the result"
	if len(blocks) > 1 {
		what = fmt.Sprintf("An array with %d parts of the result", len(blocks))
	}
	note, _ := b.save(what, "parts.json", content)
	call.NoteHint(b.res, note)
}

// attachments moves the large attachments to files. Small ones stay as long as there is room for them.
func (b *bounds) attachments() {
	res, left, files, omitted := b.res, maxParts, 0, 0
	var kept []tool.Attachment
	for i, a := range res.Attachments {
		switch n := len(a.Content); {
		case len(kept) == maxCount, n > left && files == maxFiles, n > maxPart && files == maxFiles:
			omitted++
			continue
		case n <= maxPart && n <= left:
			left -= n
		default:
			name := "attachment.bin"
			if utf8.Valid(a.Content) {
				name = "attachment.txt"
			}
			note, path := b.save(fmt.Sprintf("Attachment %d (%s)", i+1, a.MediaType), name, a.Content)
			call.NoteHint(res, note)
			a.Path, a.Content = path, nil
			files++
		}
		kept = append(kept, a)
	}
	res.Attachments = kept
	if omitted > 0 {
		call.NoteHint(res, fmt.Sprintf("%d further attachments were omitted, because a result has at most %d, and %d of them in files", omitted, maxCount, maxFiles))
	}
}

// save writes a part of the result to a file. It returns a sentence about the part without its full stop, and the path
// of the file, or "" if the file could not be written.
func (b *bounds) save(what, name string, content []byte) (note, path string) {
	path, err := b.store().Save(name, content)
	if err != nil {
		return fmt.Sprintf("%s has %d bytes, which is too much for a result, and could not be kept in a file: %v", what, len(content), err), ""
	}
	b.files = append(b.files, path)
	return fmt.Sprintf("%s has %d bytes, which is too much for a result. It is in %s", what, len(content), path), path
}

// releasing is true while unused memory is about to be returned to the system.
var releasing atomic.Bool

// releaseMemory returns unused memory to the system a moment later, when the result was sent. The second of two
// collections frees the buffers that the connection to the plugin keeps for reuse.
func releaseMemory() {
	if releasing.Swap(true) {
		return
	}
	time.AfterFunc(time.Second, func() {
		releasing.Store(false)
		runtime.GC()
		debug.FreeOSMemory()
	})
}
