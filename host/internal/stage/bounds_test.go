package stage

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"toolhost.dev/sdk/spill"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/call"
	"toolhost.dev/host/internal/principal"
	"toolhost.dev/host/internal/registry"
	"toolhost.dev/host/router"
)

// stored has one store for all owners.
type stored struct{ store *spill.Store }

func (s stored) Store(string) *spill.Store { return s.store }

// bounded returns the result of a call that the stage received as res, and the files of the stage.
func bounded(t *testing.T, res *tool.Result, change func(*call.Call)) (*tool.Result, []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "output")
	c := &call.Call{
		Request:  call.Request{Session: call.Session{Principal: principal.LocalUser()}},
		Identity: call.Identity{Command: new(router.Command), Tool: &registry.Entry{Definition: tool.Definition{Name: "big"}}},
	}
	if change != nil {
		change(c)
	}
	next := func(context.Context, *call.Call) *tool.Result { return res }
	out := Bounds(stored{spill.NewStore(dir)}).Wrap(next)(t.Context(), c)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return out, files
}

// TestBounds checks that each part of a result is limited, that the whole part is in a file that the result names, and
// that parts within the limits do not change.
func TestBounds(t *testing.T) {
	long, data := strings.Repeat("line\n", 1<<20), json.RawMessage(`{"text":"`+strings.Repeat("x", 3<<20)+`"}`)
	many := make([]tool.Attachment, 200)
	for i := range many {
		many[i] = tool.Attachment{Type: "file", MediaType: "text/plain", Content: []byte(long[:40<<10])}
	}
	for name, c := range map[string]struct {
		res    tool.Result
		change func(*call.Call)
		whole  string // content of the file; "" for no file
		files  int
		failed bool
	}{
		"text":             {res: tool.Result{Output: long, Contents: []tool.Content{{Text: len(long)}}}, whole: long, files: 1},
		"error":            {res: tool.Result{Error: tool.Errorf(tool.ExecutionFailed, "%s", long)}, whole: long, files: 1, failed: true},
		"data of an error": {res: tool.Result{Error: &tool.Error{Kind: tool.Internal, Message: "no", Data: data}}, whole: string(data), files: 1, failed: true},
		"data":             {res: tool.Result{Output: "see the data", Data: data}, whole: string(data), files: 1},
		"data that callers expect": {
			res: tool.Result{Output: "see the data", Data: data}, whole: string(data), files: 1, failed: true,
			change: func(c *call.Call) { c.Identity.Tool.Definition.Output = json.RawMessage(`{}`) },
		},
		"attachment":      {res: tool.Result{Attachments: []tool.Attachment{{Type: "file", Content: []byte(long[:maxParts-1])}, {Content: []byte("small")}, {Content: []byte("xx")}}}, whole: long[:maxParts-1], files: 1},
		"many":            {res: tool.Result{Attachments: many}, whole: long[:40<<10], files: 200 - maxParts/(40<<10)},
		"block":           {res: tool.Result{Contents: []tool.Content{{Block: data}, {Block: data}}}, whole: "[" + string(data) + ",\n" + string(data) + "]\n", files: 1},
		"tiny blocks":     {res: tool.Result{Contents: slices.Repeat([]tool.Content{{Block: json.RawMessage(`{}`)}}, 100_000)}, whole: "[" + strings.Repeat("{},\n", 99_999) + "{}]\n", files: 1},
		"tiny files":      {res: tool.Result{Attachments: slices.Repeat([]tool.Attachment{{MediaType: "text/plain", Content: []byte("x")}}, 100_000)}},
		"large files":     {res: tool.Result{Attachments: slices.Repeat([]tool.Attachment{{Content: []byte(long[:maxPart+1])}}, 1000)}, whole: long[:maxPart+1], files: maxFiles},
		"media type":      {res: tool.Result{Attachments: []tool.Attachment{{MediaType: long, Path: long}}}},
		"title":           {res: tool.Result{Output: "x", Title: long}},
		"within limits":   {res: tool.Result{Output: long[:maxText], Data: data[:maxData], Attachments: []tool.Attachment{{Content: make([]byte, maxParts)}}, Contents: []tool.Content{{Text: maxText}}}},
		"of a child call": {res: tool.Result{Output: long, Data: data}, change: func(c *call.Call) { c.Identity.Depth = 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			before, parts := c.res, resultSize(&c.res)
			res, files := bounded(t, &c.res, c.change)
			if len(files) != c.files || (res.Error != nil) != c.failed {
				t.Fatalf("files %q, error %v", files, res.Error)
			}
			if c.files == 0 {
				if strings.HasPrefix(name, "w") && resultSize(res) != parts {
					t.Errorf("%d bytes of %d", resultSize(res), parts)
				}
				if b, err := json.Marshal(res); !strings.HasPrefix(name, "w") && (err != nil || len(b) > 2*maxParts) && c.change == nil {
					t.Errorf("the result has %d bytes as JSON: %v", len(b), err)
				}
				if len(res.Title) > maxTitle+len("…") {
					t.Errorf("a title of %d bytes", len(res.Title))
				}
				return
			}
			text := res.Output
			if res.Error != nil {
				text = res.Error.Message
			}
			if got, err := os.ReadFile(files[0]); err != nil || string(got) != c.whole || !strings.Contains(text, files[0]) {
				t.Errorf("%s has %d bytes, %v; the text is %.300q", files[0], len(got), err, text)
			}
			if n := resultSize(res); n > maxParts+2*shortText || len(res.Attachments) > maxCount || len(res.Contents) > 0 {
				t.Errorf("the result has %d bytes: %+v", n, res.Contents)
			}
			if noted, _ := res.Metadata["files"].([]string); len(noted) != c.files {
				t.Errorf("the metadata names %q", noted)
			}
			if before.Error != nil && resultSize(&before) != parts {
				t.Error("the error of the plugin was changed")
			}
		})
	}
}

// TestBoundsWithoutRoom checks that a result is also limited if its files cannot be written.
func TestBoundsWithoutRoom(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	res := &tool.Result{Output: strings.Repeat("x", 1<<20), Data: json.RawMessage(`"` + strings.Repeat("x", 2<<20) + `"`), Attachments: []tool.Attachment{{Content: make([]byte, 6<<20)}}}
	b := bounds{res: res, name: "big", store: func() *spill.Store { return spill.NewStore(file) }}
	b.apply()
	if resultSize(res) > 2*shortText || strings.Count(res.Output, "could not be kept in a file: ") != 3 || b.files != nil {
		t.Errorf("%d bytes: %.300q", resultSize(res), res.Output)
	}
}

// TestBoundExchange checks that the answer about a resource is limited.
func TestBoundExchange(t *testing.T) {
	exchange := func(c *call.Call) { c.Request.Exchange = new(call.Exchange) }
	for n, failed := range map[int]bool{maxExchange: false, maxExchange + 1: true} {
		if res, files := bounded(t, &tool.Result{Data: make(json.RawMessage, n)}, exchange); (res.Error != nil) != failed || files != nil || failed && len(res.Data) > 0 {
			t.Errorf("%d bytes: %v, files %q", n, res.Error, files)
		}
	}
}
