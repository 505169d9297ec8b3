package editor

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"toolhost.dev/sdk"
	"toolhost.dev/sdk/suggest"
	"toolhost.dev/sdk/tool"

	"toolhost.dev/plugins/edit/history"
	"toolhost.dev/plugins/edit/strategy"
)

// config is the operator's configuration of the plugin.
type config struct {
	HistoryMB  int                 `json:"history_mb,omitempty" default:"64" min:"1" max:"65536" jsonschema:"The maximum size, in MiB, of the earlier contents kept for undo, for all sessions together. The oldest changes are deleted first."`
	UndoAge    string              `json:"undo_age,omitempty" jsonschema:"The age at which a change can no longer be undone, as a duration such as 720h. By default only history_mb limits the changes."`
	MaxFile    int64               `json:"max_file_mb,omitempty" default:"96" min:"1" max:"96" jsonschema:"The largest file that edit and write change or make, in MiB."`
	Strategies map[string][]string `json:"strategies,omitempty" jsonschema:"The strategies that may find old_string, by glob. A glob with a slash matches the absolute path, any other the file's name. For a file that matches several globs, only strategies that all of them list are allowed."`
}

// rule defines which strategies are allowed for files that match a glob.
type rule struct {
	glob string
	set  strategy.Set
}

func (e *editor) configure(_ context.Context, c config, s sdk.Setup) error {
	e.maxFile = c.MaxFile << 20
	e.History = history.Open(s.StateDir, int64(c.HistoryMB)<<20)
	if c.UndoAge != "" {
		age, err := tool.ParseDuration(c.UndoAge)
		if err != nil || age <= 0 {
			return &sdk.ConfigError{Path: []string{"undo_age"}, Summary: fmt.Sprintf("undo_age is %q, which is not a duration", c.UndoAge), Detail: "Write a positive number with a unit, such as 720h."}
		}
		e.History.MaxAge = age
	}
	names := strategy.Names()
	for _, glob := range slices.Sorted(maps.Keys(c.Strategies)) {
		if glob == "" || !doublestar.ValidatePattern(glob) {
			return &sdk.ConfigError{
				Path: []string{"strategies", glob}, Summary: fmt.Sprintf("%q is not a valid glob.", glob), Detail: `Write a glob such as "*.yaml" or "/srv/**/*.conf".`,
			}
		}
		set := c.Strategies[glob]
		for i, name := range set {
			if !slices.Contains(names, name) {
				return &sdk.ConfigError{
					Path:    []string{"strategies", glob, fmt.Sprint(i)},
					Summary: fmt.Sprintf("Unknown strategy %q.%s", name, suggest.DidYouMean(name, names)),
					Detail:  "The strategies are " + strings.Join(names, ", ") + ".",
				}
			}
		}
		if len(set) == 0 {
			return &sdk.ConfigError{Path: []string{"strategies", glob},
				Summary: fmt.Sprintf("No strategy is allowed for %q.", glob), Detail: `Allow at least one strategy: ["exact"].`}
		}
		e.rules = append(e.rules, rule{glob, set})
	}
	return nil
}

// strategies returns the strategies that are allowed for a file. A nil result means that all strategies are allowed.
func (e *editor) strategies(path string) strategy.Set {
	var set strategy.Set
	for _, r := range e.rules {
		name := path
		if !strings.Contains(r.glob, "/") {
			name = filepath.Base(path)
		}
		if !doublestar.MatchUnvalidated(r.glob, name) {
			continue
		}
		if set == nil {
			set = slices.Clone(r.set)
			continue
		}
		set = slices.DeleteFunc(set, func(name string) bool { return !slices.Contains(r.set, name) })
	}
	return set
}
