package editor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
	"toolhost.dev/sdk/unidiff"
	"toolhost.dev/sdk/workspace"

	"toolhost.dev/plugins/edit/strategy"
	"toolhost.dev/plugins/edit/validate"
)

// hunkStrategies lists the strategies that search for the place of a hunk. The operator can exclude strategies for a
// file.
var hunkStrategies = strategy.Set{strategy.Exact, strategy.LineTrimmed, strategy.Indentation, strategy.Whitespace}

// patch is the state of a diff while it is applied.
type patch struct {
	editor *editor
	call   *sdk.Call
	ws     *workspace.Workspace
	bare   bool               // true if the diff names no file
	files  []*edited          // files to write or remove, in the order of the diff
	byPath map[string]*edited // the same files by absolute path
	budget *budget
}

// applyDiff applies a diff atomically: either all hunks of all files or none.
func (e *editor) applyDiff(ctx context.Context, call *sdk.Call, name, diff string) (*sdk.Result, error) {
	b, err := newBudget(diff)
	if err != nil {
		return nil, err
	}
	files, err := unidiff.Parse(diff)
	if err != nil {
		return nil,
			tool.AsError(tool.Errorf(tool.InvalidArguments, "%w Nothing was changed.", err)).WithCode(validate.NotFound)
	}
	bare := false
	for i := range files {
		if f := &files[i]; f.Old == "" && f.New == "" {
			bare = true
			if name == "" {
				return nil, tool.Errorf(tool.InvalidArguments, "The diff names no file. Insert the lines \"--- a/file\" and \"+++ b/file\" before line %d, or set file_path.", f.Line)
			}
			f.Old, f.New = name, name
		}
	}
	paths := unidiff.Paths(files)
	for _, path := range paths {
		if slices.Contains(strings.Split(path, "/"), "..") {
			return nil, validate.Refuse(validate.PathDenied, tool.Security, "The diff names %s, but paths in a diff must not contain \"..\". Write the path relative to %s.", path, call.Cwd)
		}
	}
	ws, err := call.Workspace()
	if err != nil {
		return nil, err
	}
	unlock, err := e.lock(ctx, ws, call.Cwd, paths...)
	if err != nil {
		return nil, err
	}
	defer unlock()
	defer b.release()
	p := &patch{editor: e, call: call, ws: ws, bare: bare, byPath: make(map[string]*edited), budget: b}
	for i := range files {
		if err := p.file(ctx, &files[i]); err != nil {
			return nil, p.failed(&files[i], i, len(files), err)
		}
	}
	var changes, removals []*change
	for _, f := range p.files {
		if err := f.changed(); err != nil {
			return nil, err
		}
		if f.told = func() { f.tell() }; f.remove {
			removals = append(removals, &f.change) // remove files last, because a killed process can then leave a duplicate file but loses no file
			continue
		}
		changes = append(changes, &f.change)
	}
	changes = append(changes, removals...)
	if err := e.save(ctx, call, changes...); err != nil {
		return nil, err
	}
	return result(p.files), nil
}

// failed adds the file name to an error of a diff with several files.
func (p *patch) failed(f *unidiff.File, i, of int, err error) error {
	e := tool.AsError(err)
	name := f.New
	if name == "" {
		name = f.Old
	}
	where := name
	if of > 1 {
		where = fmt.Sprintf("file %d of %d, %s", i+1, of, name)
	}
	return tool.Errorf(e.Kind, "Nothing was changed, because the diff cannot be applied to %s: %s", where, e.Message).WithCode(e.Code).WithCause(err)
}

// file applies the changes of a diff to one file in memory.
func (p *patch) file(ctx context.Context, in *unidiff.File) error {
	switch {
	case in.Old == "":
		return p.create(ctx, in)
	case in.New == "":
		return p.delete(ctx, in)
	case in.Old != in.New:
		return p.rename(ctx, in)
	}
	f, err := p.open(ctx, in)
	if err != nil {
		return err
	}
	f.chmod(in.Mode)
	return p.hunks(f, in)
}

// open returns an existing file with the changes that earlier parts of the diff made.
func (p *patch) open(ctx context.Context, in *unidiff.File) (*edited, error) {
	target, err := validate.Open(ctx, p.ws, p.call, p.call.Cwd, in.Old, false, false)
	if err != nil {
		return nil, err
	}
	if err := target.Read(); err != nil && !quotes(in, err) {
		return nil, err
	}
	if f := p.byPath[target.Path.String()]; f != nil {
		if f.remove {
			return nil, tool.Errorf(tool.InvalidArguments, "The diff deletes this file and changes it afterwards. Remove one of the two parts.")
		}
		return f, nil
	}
	f := &edited{change: change{target: target, name: target.Path.RelTo(p.call.Cwd)}}
	f.after = f.oldText()
	if err := p.budget.open(len(f.after)); err != nil {
		return nil, err
	}
	p.add(f)
	return f, nil
}

// quotes reports whether a patch is allowed to change a file that the session has not read. The patch must have the
// form of apply_patch, and each hunk must quote the lines that it changes. Agents with apply_patch read files by means
// of commands. The session does not record such reads.
func quotes(in *unidiff.File, unknown error) bool {
	code := tool.AsError(unknown).Code
	return in.Envelope && (code == validate.NotRead || code == validate.ModifiedSinceRead) &&
		!slices.ContainsFunc(in.Hunks, func(h unidiff.Hunk) bool {
			return strings.TrimSpace(h.Old) == "" && len(h.Above) == 0
		})
}

func (p *patch) add(f *edited) {
	p.files = append(p.files, f)
	p.byPath[f.target.Path.String()] = f
}

// vacant checks that no file exists at a path, or that the file is empty. It returns the target to create.
func (p *patch) vacant(ctx context.Context, name, doing string) (*validate.Target, error) {
	target, err := validate.File(ctx, p.ws, p.call, p.call.Cwd, name, true, false)
	if err != nil {
		return nil, err
	}
	if p.byPath[target.Path.String()] != nil || doing == "rename" && target.Before != nil {
		return nil, validate.Refuse(validate.FileExists, tool.Conflict, "File exists already: %s. Choose another name, or delete that file first.", name)
	}
	return target, nil
}

func (p *patch) create(ctx context.Context, in *unidiff.File) error {
	target, err := p.vacant(ctx, in.New, "create")
	if err != nil {
		return err
	}
	f := &edited{change: change{target: target, name: target.Path.RelTo(p.call.Cwd), perm: fs.FileMode(in.Mode)}}
	text := ""
	for _, h := range in.Hunks {
		if h.Old != "" {
			return tool.Errorf(tool.InvalidArguments, "Line %d: the hunk creates a file but has removed or context lines. Begin each of its lines with +.", h.Line).WithCode(validate.FileMissing)
		}
		text += h.New
		if h.NewOpen {
			text = strings.TrimSuffix(text, "\n")
		}
	}
	f.create(text)
	p.add(f)
	return nil
}

func (p *patch) delete(ctx context.Context, in *unidiff.File) error {
	f, err := p.open(ctx, in)
	if err != nil {
		return err
	}
	if err := p.hunks(f, in); err != nil {
		return err
	}
	if in.Whole {
		f.after = nil
	}
	if len(f.after) > 0 {
		return validate.Refuse(validate.NotFound, tool.InvalidArguments, "The diff deletes the file but removes only some of its lines. List every line of the file with a leading -.")
	}
	f.remove = true
	return nil
}

// rename renames a file: it adds the file under the new name and marks the old file for removal.
func (p *patch) rename(ctx context.Context, in *unidiff.File) error {
	old, err := p.open(ctx, in)
	if err != nil {
		return err
	}
	target, err := p.vacant(ctx, in.New, "rename")
	if err != nil {
		return err
	}
	if err := p.hunks(old, in); err != nil {
		return err
	}
	attributes, err := p.ws.Attributes(old.target.Path)
	if err != nil {
		return err
	}
	if len(in.Hunks) > 0 {
		attributes = attributes.OfOtherContent()
	}
	target.Text = old.target.Text
	f := &edited{
		change: change{target: target, name: target.Path.RelTo(p.call.Cwd), after: old.after,
			mode: &old.target.Before.Mode, attributes: attributes}, steps: old.steps, renamed: old.name,
	}
	f.chmod(in.Mode)
	p.add(f)
	old.remove, old.moved, old.steps = true, true, nil
	return nil
}

// hunks applies all hunks of a file.
func (p *patch) hunks(f *edited, in *unidiff.File) error {
	path := f.target.Path.String()
	set := hunkStrategies
	if allowed := p.editor.strategies(path); allowed != nil {
		set = slices.DeleteFunc(slices.Clone(set), func(name string) bool { return !slices.Contains(allowed, name) })
	}
	drift, from := 0, 1
	for i, h := range in.Hunks {
		if i > 0 {
			if err := p.budget.next(len(f.after)); err != nil {
				return hunkError(i, len(in.Hunks), &h, err)
			}
		}
		above, err := lineBelow(f.after, h.Above, from)
		if err != nil {
			return hunkError(i, len(in.Hunks), &h, err)
		}
		insertion := h.Old == "" && (len(h.Above) > 0 || h.AtEnd || h.Inserts && p.bare)
		if strings.TrimSpace(h.Old) == "" && !insertion || len(f.after) == 0 && h.Old == "" {
			if len(f.after) == 0 {
				f.create(h.New)
				continue
			}
			return hunkError(i, len(in.Hunks), &h, validate.Refuse(validate.NotUnique, tool.InvalidArguments, "The hunk only adds lines and has no context lines. Add context lines to show the position."))
		}
		e := strategy.Edit{Old: h.Old, New: h.New, File: f.name, WholeLines: true, From: above}
		switch {
		case insertion:
			e = insertionAt(f, &h, above, drift)
		case h.AtEnd && above == 0 && endsWith(f.after, h.Old):
			e.From = lines(f.after) - strings.Count(h.Old, "\n") + 1
		case h.Start > 0:
			e.Near = h.Start + drift
		}
		switch {
		case h.OldOpen && !h.NewOpen:
			e.Final = strategy.AddFinal
		case h.NewOpen && !h.OldOpen:
			e.Final = strategy.DropFinal
		}
		c, err := strategy.Apply(f.after, e, set)
		if err != nil {
			return hunkError(i, len(in.Hunks), &h, refusal(err))
		}
		for _, s := range c.Sites {
			drift += s.Added
			from = s.End
		}
		f.add(c, len(h.Old), len(h.New))
	}
	return nil
}

// hunkError rewords an error of package strategy for a diff and adds the number of the hunk.
func hunkError(i, of int, h *unidiff.Hunk, err error) error {
	e := tool.AsError(err)
	text := strings.NewReplacer("old_string", "its old text", "new_string", "its new text", ", or set replace_all to change them all", "").Replace(e.Message)
	return tool.Errorf(e.Kind, "Hunk %d of %d (line %d of the diff): %s", i+1, of, h.Line, text).WithCode(e.Code).WithCause(errors.Unwrap(err))
}
