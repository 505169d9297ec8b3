package state

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"toolhost.dev/sdk/tool"
)

// Parts of a state directory in the result of [Home.Sizes].
const (
	PartDatabase = "database"    // the state database and its journals
	PartOutput   = "output"      // files with output that was too long to show
	PartUndo     = tool.KeptUndo // the history of changes, for undo
	PartPlugins  = "plugins"     // other data of plugins
	PartBranches = "branches"
	PartLogs     = "logs"
	PartOther    = "other"
)

// Parts lists the parts of a state directory.
var Parts = []string{PartDatabase, PartOutput, PartUndo, PartPlugins, PartBranches, PartLogs, PartOther}

// UndoFiles maps names of plugins to globs for the files with their history of changes, in their directories. A nil
// History has none.
type UndoFiles map[string][]string

// Add adds what a plugin says that it keeps. The description can be nil.
func (h UndoFiles) Add(plugin string, desc *tool.Description) {
	if desc == nil {
		return
	}
	for _, k := range desc.Keeps {
		if k.Kind == tool.KeptUndo {
			h[plugin] = append(h[plugin], k.Files...)
		}
	}
}

func (h UndoFiles) contains(plugin, name string) bool {
	return slices.ContainsFunc(h[plugin], func(glob string) bool {
		ok, err := filepath.Match(glob, name)
		return ok && err == nil
	})
}

// part returns the part to which a path below the state directory belongs.
func (h UndoFiles) part(rel string) string {
	names := strings.Split(rel, string(filepath.Separator))
	at := 2 // the index of the first name below the directory of a plugin
	switch names[0] {
	case "journal":
		return PartDatabase
	case "branches":
		return PartBranches
	case "logs":
		return PartLogs
	case "principals":
		at = 3
	case "plugins":
	default:
		if strings.HasPrefix(names[0], "state.db") {
			return PartDatabase
		}
		return PartOther
	}
	switch {
	case len(names) > at && names[at] == OutputDir:
		return PartOutput
	case len(names) > at && h.contains(names[at-1], names[at]):
		return PartUndo
	}
	return PartPlugins
}

// Sizes returns the size of each part of the state directory, in bytes. It is nil if the host keeps no state.
func (h Home) Sizes(history UndoFiles) map[string]int64 {
	if h.Root == "" {
		return nil
	}
	out := make(map[string]int64)
	for _, p := range Parts {
		out[p] = 0
	}
	h.each(h.Root, history, func(_, part string, info fs.FileInfo) { out[part] += info.Size() })
	return out
}

// EachOutput calls a function for each file with output that was too long to show.
func (h Home) EachOutput(f func(path string, info fs.FileInfo)) {
	for _, dir := range []string{h.Plugins(), h.Principals()} {
		h.each(dir, nil, func(path, part string, info fs.FileInfo) {
			if part == PartOutput {
				f(path, info)
			}
		})
	}
}

// each calls f for each file below a directory. Hosts can remove files meanwhile, so it skips files that no longer
// exist.
func (h Home) each(dir string, history UndoFiles, f func(path, part string, info fs.FileInfo)) {
	if dir == "" {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil //nolint:nilerr // the file has vanished, or cannot be read by this user
		}
		rel, err := filepath.Rel(h.Root, path)
		if err != nil {
			return nil //nolint:nilerr // impossible below the root
		}
		if info, err := d.Info(); err == nil {
			f(path, history.part(rel), info)
		}
		return nil
	})
}
