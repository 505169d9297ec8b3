package editor

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/workspace"
	"toolhost.dev/sdk/workspace/text"

	"toolhost.dev/plugins/edit/commit"
	"toolhost.dev/plugins/edit/history"
	"toolhost.dev/plugins/edit/validate"
)

type undoArgs struct {
	FilePath string `json:"file_path,omitempty" path:"write" jsonschema:"Undo the last change of this file instead of the session's."`
	Steps    int    `json:"steps,omitempty" default:"1" min:"1" max:"1000"`
	Action   string `json:"action,omitempty" enum:"undo,preview,list,clear" default:"undo" jsonschema:"preview shows the diff of an undo; list shows what can be undone; clear deletes this history."`
	To       string `json:"to,omitempty" jsonschema:"Undo this change and all later ones. In a branch: the id of a call."`
}

type redoArgs struct {
	FilePath string `json:"file_path,omitempty" path:"write" jsonschema:"Redo the last undone change of this file instead of the session's."`
	Steps    int    `json:"steps,omitempty" default:"1" min:"1" max:"1000"`
	Action   string `json:"action,omitempty" enum:"redo,preview" default:"redo"`
}

// undoData is the structured result of undo and redo.
type undoData struct {
	Action  string       `json:"action"`
	Changes []changeData `json:"changes"`
	Files   []touched    `json:"files"`
	Diff    string       `json:"diff"`
	// UndoCount is the number of changes that can now be undone. RedoCount is the number of changes that can now be
	// redone.
	UndoCount int `json:"undo_count"`
	RedoCount int `json:"redo_count"`
	// Dropped is the number of changes that were removed from the session's history because of its size limit or age
	// limit.
	Dropped    int   `json:"dropped"`
	LimitBytes int64 `json:"limit_bytes"`
}

type changeData struct {
	ID     int64     `json:"id"`
	At     string    `json:"at"`
	Tool   string    `json:"tool"`
	Title  string    `json:"title"`
	Undone bool      `json:"undone"`
	Files  []touched `json:"files"`
}

// touched is a file together with the operation that changed it: "create", "modify" or "delete".
type touched struct {
	Path      string         `json:"path"`
	Operation tool.Operation `json:"operation"`
	// RestoredLength is the size of the file in bytes after an undo or redo. PreviousLength is the size before the undo
	// or redo.
	RestoredLength *int `json:"restored_length,omitempty"`
	PreviousLength *int `json:"previous_length,omitempty"`
}

func (e *editor) undoTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "undo",
		Role:        tool.RoleUndo,
		Description: "Undo changes that edit and write made in this session: the last one, or the last one of a file. It is refused if a file has changed since. redo reverts it.",
		Keywords:    []string{"revert", "rollback", "restore", "previous", "earlier", "version", "back"},
		Category:    tool.CategoryBuiltin,
		Traits:      sdk.Traits{Dangerous: true},
		Examples:    []string{"undo", "undo main.go --steps 2", "undo --action preview", "undo --action list"},
	}, e.undo)
}

func (e *editor) redoTool() sdk.Tool {
	return sdk.NewTool(sdk.Definition{
		Name:        "redo",
		Role:        tool.RoleRedo,
		Description: "Redo changes that undo reverted, if their files were not changed since.",
		Keywords:    []string{"reapply", "repeat", "again", "undone"},
		Category:    tool.CategoryBuiltin,
		Traits:      sdk.Traits{Dangerous: true},
		Examples:    []string{"redo", "redo main.go", "redo --action preview"},
	}, e.redo)
}

func (e *editor) undo(ctx context.Context, call *sdk.Call, in undoArgs) (*sdk.Result, error) {
	m, err := e.begin(call, in.FilePath, in.Steps, history.Undone)
	if err != nil {
		return nil, err
	}
	if in.Action, err = m.action(ctx, in.FilePath, in.Action); err != nil {
		return nil, err
	}
	if in.To != "" && in.Action != "list" && in.Action != "clear" {
		if err := m.countTo(ctx, in.To); err != nil {
			return nil, err
		}
	}
	switch in.Action {
	case "list":
		return m.list(ctx)
	case "clear":
		return m.clear(ctx)
	}
	return m.run(ctx, in.Action == "preview")
}

func (e *editor) redo(ctx context.Context, call *sdk.Call, in redoArgs) (*sdk.Result, error) {
	m, err := e.begin(call, in.FilePath, in.Steps, history.Done)
	if err != nil {
		return nil, err
	}
	if in.Action, err = m.action(ctx, in.FilePath, in.Action); err != nil {
		return nil, err
	}
	if in.Action == "list" {
		return m.list(ctx)
	}
	return m.run(ctx, in.Action == "preview")
}

// action returns the action of the call. A word such as "list" is an action and not a file if the session did
// not change a file of this name. Only actions that change nothing can be given in this way.
func (m *undoing) action(ctx context.Context, word, action string) (string, error) {
	if word != "preview" && word != "list" || action != m.verb() {
		return action, nil
	}
	log, err := m.log(ctx)
	if err != nil || len(log.Done)+len(log.Undone) > 0 {
		return action, err
	}
	m.path, m.name = "", ""
	return word, nil
}

// undoing is a call of undo or redo.
type undoing struct {
	editor *editor
	call   *sdk.Call
	ws     *workspace.Workspace
	path   string // path of the requested file; an empty path means all files
	name   string // path of the requested file as displayed in results
	steps  int
	to     history.State
}

func (e *editor) begin(call *sdk.Call, name string, steps int, to history.State) (*undoing, error) {
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	m := &undoing{editor: e, call: call, ws: ws, steps: steps, to: to}
	if name == "" {
		return m, nil
	}
	p, err := validate.Path(ws, call.Cwd, name)
	if err != nil {
		return nil, err
	}
	m.path, m.name = p.String(), p.RelTo(call.Cwd)
	return m, nil
}

// countTo sets the number of changes to undo, so that the change with the given id is the last one that is undone.
func (m *undoing) countTo(ctx context.Context, id string) error {
	log, err := m.log(ctx)
	if err != nil {
		return err
	}
	for i, c := range log.Done {
		if fmt.Sprint(c.ID) == id {
			m.steps = i + 1
			return nil
		}
	}
	return tool.Errorf(tool.NotFound, "No change %q can be undone %s. Nothing was done. To see the changes with their ids: undo --action list.", id, m.subject())
}

// verb returns the word "undo" or "redo" for messages.
func (m *undoing) verb() string {
	if m.to == history.Done {
		return "redo"
	}
	return "undo"
}

// subject describes which file is undone or redone. The text is used in messages.
func (m *undoing) subject() string {
	if m.path != "" {
		return "of " + m.name
	}
	return "in this session"
}

// tries limits the number of attempts. If another call changes the history during an attempt, the attempt is repeated.
const tries = 4

func (m *undoing) run(ctx context.Context, preview bool) (*sdk.Result, error) {
	if err := m.recover(ctx); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		res, err := m.attempt(ctx, preview)
		var moved *history.MovedError
		if !errors.As(err, &moved) || try == tries {
			return res, err
		}
	}
}

// recover locks the files of the session's unfinished changes. Locking completes or reverts changes that a killed
// process left unfinished.
func (m *undoing) recover(ctx context.Context) error {
	names, err := m.editor.History.Cut(ctx, m.call.SessionID)
	if err != nil {
		return err
	}
	var paths []workspace.Path
	for _, name := range names {
		if p, err := m.ws.Resolve("/", name); err == nil {
			paths = append(paths, p)
		}
	}
	if len(paths) == 0 {
		return nil
	}
	unlock, err := m.editor.Lock(ctx, m.ws, paths...)
	if err == nil {
		unlock()
	}
	return err
}

// attempt selects the changes, checks their files, and writes the files. In a preview, it writes no files.
func (m *undoing) attempt(ctx context.Context, preview bool) (*sdk.Result, error) {
	chosen, err := m.choose(ctx)
	if err != nil {
		return nil, err
	}
	net, err := history.Fold(chosen, m.to == history.Done)
	if err != nil {
		return nil, m.gap(err)
	}
	paths, err := m.resolve(ctx, net)
	if err != nil {
		return nil, err
	}
	unlock, err := m.editor.Lock(ctx, m.ws, paths...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	steps, err := m.prepare(ctx, chosen, net, paths)
	if err != nil {
		return nil, err
	}
	out := m.describe(chosen, steps)
	if preview {
		return m.preview(ctx, out)
	}
	var ids []int64
	for _, c := range chosen {
		ids = append(ids, c.ID)
	}
	done, err := m.editor.Apply(ctx, m.ws, commit.Commit{
		Session: m.call.SessionID, Tool: m.call.Tool, Title: m.verb(), Steps: steps, Moves: ids, To: m.to,
	})
	if err != nil {
		return nil, conflicting(err)
	}
	if m.to == history.Undone {
		for _, c := range chosen {
			commit.RemoveDirs(m.ws, c.Dirs)
		}
	}
	return m.done(ctx, out, done)
}

// choose returns the changes to undo or redo, in the order of undoing or redoing.
func (m *undoing) choose(ctx context.Context) ([]*history.Change, error) {
	log, err := m.log(ctx)
	if err != nil {
		return nil, err
	}
	all, other := log.Done, len(log.Undone)
	if m.to == history.Done {
		all, other = log.Undone, len(log.Done)
	}
	if len(all) >= m.steps {
		return all[:m.steps], nil
	}
	var why strings.Builder
	if len(all) == 0 {
		fmt.Fprintf(&why, "There is nothing to %s %s.", m.verb(), m.subject())
	} else {
		fmt.Fprintf(&why, "Only %s can be %s %s, not %d. Nothing was done. Set fewer steps.", plural(len(all), "change"), past(m.to), m.subject(), m.steps)
	}
	if m.to == history.Undone && log.Dropped > 0 {
		fmt.Fprintf(&why, " The history is limited to %s and has dropped %s.", text.FormatSize(m.editor.History.Limit()), plural(log.Dropped, "older change"))
	}
	if len(all) == 0 && other > 0 {
		fmt.Fprintf(&why, " %s can be %s.", plural(other, "change"), past(history.Done+history.Undone-m.to))
	}
	return nil, tool.Errorf(tool.NotFound, "%s", why.String())
}

func past(to history.State) string {
	if to == history.Done {
		return "redone"
	}
	return "undone"
}

// log returns the session's history without the changes of files outside of the roots.
func (m *undoing) log(ctx context.Context) (*history.Log, error) {
	log, err := m.editor.History.Log(ctx, m.call.SessionID, m.path)
	if err != nil {
		return nil, err
	}
	log.Done, log.Undone = m.inRoots(log.Done), m.inRoots(log.Undone)
	return log, nil
}

func (m *undoing) inRoots(all []*history.Change) []*history.Change {
	var in []*history.Change
	for _, c := range all {
		inside := true
		for _, f := range c.Files {
			_, err := m.ws.Resolve("/", f.Path)
			inside = inside && err == nil
		}
		if inside {
			in = append(in, c)
		}
	}
	return in
}

// resolve resolves the paths of the files and checks that each file is writable.
func (m *undoing) resolve(ctx context.Context, net []history.File) ([]workspace.Path, error) {
	paths := make([]workspace.Path, len(net))
	var unasked []string
	for i, f := range net {
		p, err := validate.Path(m.ws, "/", f.Path)
		if err != nil {
			return nil, err
		}
		if p.String() != f.Path {
			return nil, validate.Refuse(validate.ModifiedSinceRead, tool.Conflict, "The path %s now leads to %s through a symbolic link. Nothing was written. Restore the original directory, or make the change by hand.", f.Path, p)
		}
		if paths[i] = p; f.Path != m.path {
			unasked = append(unasked, f.Path)
		}
	}
	if len(unasked) == 0 {
		return paths, nil // a path in the arguments is already checked by the host
	}
	err := m.call.Permit(ctx, tool.Permission{Kind: tool.PermissionEdit, Title: m.verb(), Patterns: unasked})
	if e := tool.AsError(err); e != nil && e.Kind == tool.PermissionDenied {
		return nil, e.WithCode(validate.PathDenied)
	}
	return paths, err
}

// prepare reads the current files and the stored contents. It returns the steps that restore the stored contents.
func (m *undoing) prepare(ctx context.Context, chosen []*history.Change, net []history.File,
	paths []workspace.Path) ([]commit.Step, error) {
	var steps []commit.Step
	for i, f := range net {
		snap, err := commit.Current(m.ws, paths[i])
		if err != nil {
			return nil, err
		}
		if !commit.Matches(snap, f.Before) {
			return nil, m.changed(ctx, chosen, f, snap)
		}
		if snap == nil && !f.After.Exists {
			continue // the file did not exist before these changes and does not exist after them
		}
		if err := m.editor.History.Load(ctx, &f.After); err != nil {
			return nil, err
		}
		s := commit.Step{
			Path: paths[i], Before: snap, After: f.After.Data, Remove: !f.After.Exists, Attributes: f.After.Attributes,
		}
		// Restore the mode only if the change affected the mode.
		if f.After.Exists && (snap == nil || f.Before.Mode != f.After.Mode) {
			s.Mode = &f.After.Mode
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// changed returns the error for a file that does not have the version that the history expects.
func (m *undoing) changed(ctx context.Context, chosen []*history.Change, f history.File,
	snap *workspace.Snapshot) error {
	last := chosen[0]
	for _, c := range chosen {
		if c.Touches(f.Path) {
			last = c
			break
		}
	}
	how := "has been changed"
	switch {
	case snap == nil:
		how = "has been removed"
	case !f.Before.Exists:
		how = "has been created"
	}
	name := m.show(f.Path)
	var next string
	switch id, title, own, err := m.editor.History.Later(ctx, m.call.SessionID, f.Path, last.ID); {
	case err != nil || id == 0:
		next = fmt.Sprintf("Read the file and make the change by hand with edit; %s --action preview shows the changes.", m.verb())
	case own:
		next = fmt.Sprintf("The later change is %d (%s). Undo it first: undo %s.", id, title, name)
	default:
		next = fmt.Sprintf("The later change was made in another session (%s). Read the file and make the change by hand.", title)
	}
	return validate.Refuse(validate.ModifiedSinceRead, tool.Conflict, "%s %s since change %d (%s), so %s would lose its current content. Nothing was written. %s",
		name, how, last.ID, last.Title, m.verb(), next)
}

func (m *undoing) gap(err error) error {
	var gap *history.GapError
	if !errors.As(err, &gap) {
		return err
	}
	return validate.Refuse(validate.ModifiedSinceRead, tool.Conflict, "%s was changed by another program between the changes, so they cannot be %s together: change %d (%s) does not fit. Nothing was written. Set fewer steps.",
		m.show(gap.Path), past(m.to), gap.Change.ID, gap.Change.Title)
}

// show returns a path for messages. The path is relative to the working directory if possible.
func (m *undoing) show(path string) string {
	if p, err := m.ws.Resolve("/", path); err == nil {
		return p.RelTo(m.call.Cwd)
	}
	return path
}
