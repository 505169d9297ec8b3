package console

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"toolhost.dev/sdk/tool"

	"toolhost.dev/host/internal/lazyregexp"
)

// change is a change of files in the history of a session.
type change struct {
	ID     int64     `json:"id"`
	At     time.Time `json:"at"`
	Title  string    `json:"title"`
	Undone bool      `json:"undone"`
	Files  []struct {
		Path      string `json:"path"`
		Operation string `json:"operation"`
	} `json:"files"`
	// Redo is the number of redo steps that restore this undone change, including the undone changes before it. It is
	// zero for a change that is not undone.
	Redo int `json:"-"`
}

// changesData describes what a session changed in files.
type changesData struct {
	Changes []change
	// Diffs contains a diff for each file. It shows the total effect of all changes that are not undone.
	Diffs []string
	// Problem is the reason why the diffs are missing.
	Problem string
	// Older is the number of changes that are too old for the diffs.
	Older int
}

// maxChanges is the maximum number of changes in the diffs of a session.
const maxChanges = 100

// undoData is the structured result of undo.
type undoData struct {
	Changes []change `json:"changes"`
	Diff    string   `json:"diff"`
	Undo    int      `json:"undo_count"`
}

func (c *Console) undoing(ctx context.Context, s *session, row *sessionRow,
	arguments map[string]any) (*undoData, error) {
	res, err := c.runRole(ctx, s, row.ID, row.Workspace, tool.RoleUndo, arguments)
	if err != nil {
		return nil, err
	}
	data := new(undoData)
	return data, json.Unmarshal(res.Data, data)
}

// changes loads what a session changed. It calls a tool in the session, so a page shows it only on request.
func (c *Console) changes(ctx context.Context, s *session, row *sessionRow) *changesData {
	out := new(changesData)
	listed, err := c.undoing(ctx, s, row, map[string]any{"action": tool.ActionList})
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.Changes = listed.Changes
	steps := 0
	for i := range slices.Backward(out.Changes) { // count from the oldest undone change, because redo begins with it
		if out.Changes[i].Undone {
			steps++
			out.Changes[i].Redo = steps
		}
	}
	if listed.Undo == 0 {
		return out
	}
	out.Older = max(0, listed.Undo-maxChanges)
	preview, err := c.undoing(ctx, s, row, map[string]any{"action": "preview", "steps": listed.Undo - out.Older})
	if err != nil {
		out.Problem = err.Error()
		return out
	}
	out.Diffs = files(inverted(preview.Diff))
	return out
}

// hunk matches the line before a part of a unified diff.
var hunk = lazyregexp.New(`^@@ -(\S+) \+(\S+) @@`)

// inverted returns the unified diff of the reverse change.
func inverted(diff string) string {
	var out, added []string
	lines := strings.Split(diff, "\n")
	left, right := 0, 0 // numbers of lines of the hunk that still follow
	flush := func() {
		out = append(out, added...)
		added = nil
	}
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		switch {
		case left+right > 0 && strings.HasPrefix(line, "-"):
			left--
			added = append(added, "+"+line[1:])
			continue
		case left+right > 0 && strings.HasPrefix(line, "+"):
			right--
			out = append(out, "-"+line[1:])
			continue
		case left+right > 0 && strings.HasPrefix(line, " "):
			left, right = left-1, right-1
		case strings.HasPrefix(line, `\`): // this line means that the line before it has no newline
			if len(added) > 0 && i > 0 && strings.HasPrefix(lines[i-1], "-") {
				added = append(added, line)
				continue
			}
			out = append(out, line)
			continue
		case strings.HasPrefix(line, "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ "):
			flush()
			out = append(out, "--- "+other(lines[i+1][4:], "a/"), "+++ "+other(line[4:], "b/"))
			i++
			continue
		default:
			if m := hunk.FindStringSubmatch(line); m != nil {
				flush()
				left, right = size(m[1]), size(m[2])
				out = append(out, "@@ -"+m[2]+" +"+m[1]+" @@"+line[len(m[0]):])
				continue
			}
		}
		flush()
		out = append(out, line)
	}
	flush()
	return strings.Join(out, "\n")
}

// other replaces the prefix of a file name in a diff, which is "a/" or "b/". It does not change "/dev/null".
func other(name, prefix string) string {
	if name == "/dev/null" {
		return name
	}
	return prefix + name[min(len(name), 2):]
}

// size returns the number of lines in a part of a hunk such as "3,7".
func size(part string) int {
	_, lines, counted := strings.Cut(part, ",")
	if !counted {
		return 1
	}
	n, _ := strconv.Atoi(lines) // a text that is not a number counts as zero
	return n
}

// files splits a diff by file.
func files(diff string) []string {
	var out []string
	begin := 0
	lines := strings.SplitAfter(diff, "\n")
	for i := 1; i < len(lines); i++ {
		if strings.HasPrefix(lines[i], "--- ") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "+++ ") {
			out = append(out, strings.Join(lines[begin:i], ""))
			begin = i
		}
	}
	if rest := strings.Join(lines[begin:], ""); strings.TrimSpace(rest) != "" {
		out = append(out, rest)
	}
	return out
}

// undo runs the tool with the role undo or redo in a session. It undoes or redoes one change, a number of changes, or
// all changes back to a given one.
func (c *Console) undo(r *http.Request, s *session) (string, error) {
	id, role, arguments := r.PostFormValue("id"), tool.RoleUndo, map[string]any{}
	next := "/sessions?id=" + url.QueryEscape(id)
	if r.PostFormValue("what") == string(tool.RoleRedo) {
		role = tool.RoleRedo
	}
	if to := r.PostFormValue("to_change"); to != "" {
		arguments["to"] = to
		next += "&show=changes"
	}
	if steps := r.PostFormValue("steps"); steps != "" {
		n, err := strconv.Atoi(steps)
		if err != nil {
			return "", fmt.Errorf("%q is no number of steps", steps)
		}
		arguments["steps"] = n
		next += "&show=changes"
	}
	if _, err := c.runRole(r.Context(), s, id, r.PostFormValue("workspace"), role, arguments); err != nil {
		return "", err
	}
	return next, nil
}
