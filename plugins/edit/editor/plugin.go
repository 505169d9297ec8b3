// Package editor holds the tools of the edit plugin: edit and write.
package editor

import (
	"context"
	"fmt"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/validate"
)

// Version of the plugin.
const Version = "0.1.0"

// Plugin describes the plugin.
func Plugin() sdk.Plugin {
	return sdk.Plugin{Name: "edit", Version: Version, Tools: []sdk.Tool{editTool(), writeTool()}}
}

// change is a file's new text on its way to the disk.
type change struct {
	ws     *workspace.Workspace
	target *validate.Target
	name   string // as the caller named it
	after  []byte // UTF-8
}

// save writes the change and gives the effect and the diff.
func (c *change) save(ctx context.Context) (*workspace.Written, string, error) {
	data := c.after
	var before string
	if c.target.Text != nil {
		before = string(c.target.Text.Content)
		var err error
		if data, err = c.target.Text.Encode(c.after); err != nil {
			return nil, "", tool.AsError(err).WithCode(validate.WrongType)
		}
	}
	opt := workspace.WriteOptions{Expect: c.target.Before, New: c.target.Before == nil, Parents: true}
	done, err := c.ws.WriteFile(ctx, c.target.Path, data, opt)
	if err != nil {
		e := tool.AsError(err)
		if e.Kind == tool.Conflict {
			e = e.WithCode(validate.ModifiedSinceRead)
		}
		return nil, "", e
	}
	return done, diff(c.name, before, string(c.after), done.Created), nil
}

// diff is the change as a unified diff.
func diff(name, before, after string, created bool) string {
	from := "a/" + strings.TrimPrefix(name, "/")
	if created {
		from = "/dev/null"
	}
	return udiff.Unified(from, "b/"+strings.TrimPrefix(name, "/"), before, after)
}

// maxShownDiff bounds the diff in the text for the model, in bytes; the data has all of it.
const maxShownDiff = 8 << 10

func shown(diff string) string {
	if len(diff) <= maxShownDiff {
		return diff
	}
	cut := strings.LastIndexByte(diff[:maxShownDiff], '\n') + 1
	return fmt.Sprintf("%s… %d more lines of the diff", diff[:cut], strings.Count(diff[cut:], "\n"))
}

// note says how a file was written where that was not the usual way.
func note(done *workspace.Written) string {
	if done.InPlace == "" {
		return ""
	}
	return " It was written over in place, because " + done.InPlace + "."
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
