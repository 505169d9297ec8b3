package editor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
)

// describe creates the structured result for a list of steps.
func (m *undoing) describe(chosen []*history.Change, steps []commit.Step) *undoData {
	d := &undoData{Action: m.verb(), Changes: m.changes(chosen), Files: []touched{}}
	var all strings.Builder
	for _, s := range steps {
		restored, previous := len(s.After), len(data(s.Before))
		d.Files = append(d.Files, touched{
			Path: s.Path.String(), Operation: operation(s.Before != nil, !s.Remove), RestoredLength: &restored,
			PreviousLength: &previous,
		})
		all.WriteString(stepDiff(s.Path.RelTo(m.call.Cwd), s))
	}
	d.Diff = all.String()
	return d
}

func operation(before, after bool) tool.Operation {
	switch {
	case !before:
		return tool.OpCreate
	case !after:
		return tool.OpDelete
	}
	return tool.OpModify
}

// stepDiff returns the change of a file as a unified diff. If the file is not text, stepDiff returns a description.
func stepDiff(name string, s commit.Step) string {
	var before, after []byte
	for _, side := range []struct {
		data []byte
		into *[]byte
	}{{data(s.Before), &before}, {s.After, &after}} {
		decoded, err := text.Decode(side.data)
		if err != nil {
			return fmt.Sprintf("Binary file %s: %s before, %s after\n", name,
				text.FormatSize(int64(len(data(s.Before)))), text.FormatSize(int64(len(s.After))))
		}
		*side.into = decoded.Content
	}
	from, to := "a/"+strings.TrimPrefix(name, "/"), "b/"+strings.TrimPrefix(name, "/")
	if s.Before == nil {
		from = "/dev/null"
	}
	if s.Remove {
		to = "/dev/null"
	}
	out := diff(from, to, before, after)
	switch {
	case out != "":
	case s.Mode != nil && s.Before != nil:
		out = fmt.Sprintf("%s: mode %v to %v\n", name, s.Before.Mode.Perm(), s.Mode.Perm())
	case s.Before == nil || s.Remove:
		out = fmt.Sprintf("%s: an empty file, %s\n", name, operation(s.Before != nil, !s.Remove))
	default:
		out = fmt.Sprintf("%s: the bytes change, the text does not\n", name)
	}
	return out
}

func data(s *workspace.Snapshot) []byte {
	if s == nil {
		return nil
	}
	return s.Data
}

func (m *undoing) changes(all []*history.Change) []changeData {
	out := []changeData{}
	for _, c := range all {
		d := changeData{ID: c.ID, At: c.At.UTC().Format(time.RFC3339), Tool: c.Tool, Title: c.Title,
			Undone: c.State == history.Undone}
		for _, f := range c.Files {
			d.Files = append(d.Files, touched{Path: f.Path, Operation: operation(f.Before.Exists, f.After.Exists)})
		}
		out = append(out, d)
	}
	return out
}

// count sets the numbers of changes that can now be undone and redone.
func (m *undoing) count(ctx context.Context, d *undoData) (*history.Log, error) {
	log, err := m.log(ctx)
	if err != nil {
		return nil, err
	}
	d.UndoCount, d.RedoCount, d.Dropped, d.LimitBytes = len(log.Done), len(log.Undone), log.Dropped,
		m.editor.History.Limit()
	return log, nil
}

func (m *undoing) preview(ctx context.Context, d *undoData) (*sdk.Result, error) {
	if _, err := m.count(ctx, d); err != nil {
		return nil, err
	}
	d.Action = "preview"
	return &sdk.Result{
		Output: fmt.Sprintf("Preview of %s for %s; nothing was written.\n%s", m.verb(), titles(d.Changes), shown(d.Diff)),
		Title:  "Preview of " + m.verb(), Data: sdk.Data(d),
	}, nil
}

func (m *undoing) done(ctx context.Context, d *undoData, done *commit.Done) (*sdk.Result, error) {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s.", map[history.State]string{history.Done: "Redid", history.Undone: "Undid"}[m.to],
		titles(d.Changes))
	for i, f := range d.Files {
		fmt.Fprintf(&out, "\n%s: %s", m.show(f.Path), map[tool.Operation]string{tool.OpCreate: "created",
			tool.OpModify: "restored", tool.OpDelete: "removed"}[f.Operation])
		if w := done.Written[i]; w != nil && w.InPlace != "" {
			fmt.Fprintf(&out, " (overwritten in place, because %s)", w.InPlace)
		}
		out.WriteString(refused(done.Written[i]))
	}
	res := &sdk.Result{
		Title: strings.ToUpper(m.verb()[:1]) + m.verb()[1:] + " " + titles(d.Changes), Effects: done.Effects,
	}
	if done.Lost != "" {
		fmt.Fprintf(&out, "\n[note: this step is not recorded in the history: %s]", done.Lost)
	}
	if _, err := m.count(ctx, d); err != nil {
		fmt.Fprintf(&out, "\n[note: %v]", err)
	} else {
		fmt.Fprintf(&out, "\n%s can be undone and %d redone %s.", plural(d.UndoCount, "change"), d.RedoCount,
			m.subject())
	}
	res.Output, res.Data = out.String()+"\n"+shown(d.Diff), sdk.Data(d)
	return res, nil
}

// titles joins the titles of changes into one line.
func titles(all []changeData) string {
	var names []string
	for _, c := range all {
		names = append(names, fmt.Sprintf("change %d (%s)", c.ID, c.Title))
	}
	if len(names) > 3 {
		return fmt.Sprintf("%d changes, from %s to %s", len(names), names[0], names[len(names)-1])
	}
	return strings.Join(names, ", ")
}

// maxListed limits the number of changes in the text of the result. The structured result contains all changes.
const maxListed = 50

func (m *undoing) list(ctx context.Context) (*sdk.Result, error) {
	d := &undoData{Action: "list", Files: []touched{}}
	if err := m.recover(ctx); err != nil {
		return nil, err
	}
	log, err := m.count(ctx, d)
	if err != nil {
		return nil, err
	}
	slices.Reverse(log.Undone) // list the last change first, as in log.Done
	d.Changes = append(m.changes(log.Undone), m.changes(log.Done)...)
	var out strings.Builder
	fmt.Fprintf(&out, "%s can be undone and %d redone %s.", plural(d.UndoCount, "change"), d.RedoCount, m.subject())
	for i, c := range d.Changes {
		if i == maxListed {
			fmt.Fprintf(&out, "\n… and %d older", len(d.Changes)-i)
			break
		}
		undone := ""
		if c.Undone {
			undone = "  (undone)"
		}
		fmt.Fprintf(&out, "\n%d  %s  %s%s", c.ID, c.At, c.Title, undone)
	}
	if d.Dropped > 0 {
		fmt.Fprintf(&out, "\n[note: the history is limited to %s and has dropped %s of the session]", text.FormatSize(d.LimitBytes), plural(d.Dropped, "older change"))
	}
	return &sdk.Result{Output: out.String(), Title: "History", Data: sdk.Data(d)}, nil
}

func (m *undoing) clear(ctx context.Context) (*sdk.Result, error) {
	n, err := m.editor.History.Clear(ctx, m.call.SessionID, m.path)
	if err != nil {
		return nil, err
	}
	d := &undoData{Action: "clear", Changes: []changeData{}, Files: []touched{}}
	if _, err := m.count(ctx, d); err != nil {
		return nil, err
	}
	return &sdk.Result{Output: fmt.Sprintf("Deleted the history of %s %s. The files are unchanged.", plural(n, "change"), m.subject()), Title: "Clear history",
		Data: sdk.Data(d)}, nil
}
