// Package finder implements the tools grep, glob, list and code_query: their arguments, results and messages. Other
// packages of this module do the work. Packages query and locate search a tree. Package walk visits the tree and
// excludes files by packages ignore and glob. Packages syntax and automaton compile a pattern for package pattern, and
// package search finds the pattern in a file. Package index keeps searched trees, with their text in package content;
// package freshness detects changes. Package definition looks up names in the declarations that package outline finds.
// Package symbol defines the form of the declarations.
package finder

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"toolhost.dev/plugins/grep/freshness"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/sdk"
	"toolhost.dev/sdk/tool"
)

// Version is the version of the plugin.
const Version = "0.1.0"

// Plugin returns the plugin that serves the tools.
func Plugin() sdk.Plugin { return newFinder().plugin() }

// config is the configuration that the operator sets for the plugin.
type config struct {
	MaxLine   *int   `json:"max_line,omitempty" min:"0" max:"100000" jsonschema:"The maximum number of characters that grep shows of a line. Of a longer line it shows the part around the match. 0 means no limit. The default is 500."`
	TimeLimit *int   `json:"time_limit,omitempty" min:"0" max:"3600" jsonschema:"The number of seconds after which a search ends with the results so far. 0 means no limit. The default is 20."`
	Index     *bool  `json:"index,omitempty" jsonschema:"Keep the text of the trees that are searched in memory, with an index. The default is true."`
	Memory    *int   `json:"memory_mb,omitempty" min:"1" max:"1048576" jsonschema:"The memory limit, in megabytes, of all indexes together, including cached declarations. Files that do not fit are searched on disk. The default is 512."`
	Freshness string `json:"freshness,omitempty" enum:"events,stat" jsonschema:"How changes to indexed files are detected: events (the default) uses notifications of the kernel where possible, and detects a write through a new hard link outside of the tree within 10 seconds of use; stat compares all files for each call, which is slower but detects it at once. Neither detects a store into a file through a memory mapping that stays open, until the mapping is synced or closed."`
}

// finder is the state that all calls share. Its configuration must not change after the first call.
type finder struct {
	maxLine   int
	timeLimit time.Duration
	options   index.Options
	indexed   bool
	indexes   func() *index.Set
	reports   freshness.Reports
	symbols   *symbols
}

func newFinder() *finder {
	f := &finder{maxLine: 500, timeLimit: 20 * time.Second,
		options: index.Options{Memory: 512 << 20, Freshness: index.ByEvents}, indexed: true}
	f.indexes = sync.OnceValue(func() *index.Set {
		f.options.Reports = &f.reports
		f.options.Beside = f.options.Memory/symbolsShare + parsersHeap
		return index.NewSet(f.options)
	})
	f.symbols = newSymbols(f)
	return f
}

func (f *finder) plugin() sdk.Plugin {
	return sdk.Plugin{
		Name: "grep", Version: Version, Tools: []sdk.Tool{f.grepTool(), f.globTool(), f.listTool(), f.codeTool()},
		Needs: &sdk.Needs{Read: sdk.Required},
		Config: sdk.NewConfig(func(_ context.Context, c config, s sdk.Setup) error {
			f.configure(c)
			f.reports.Cover(slices.DeleteFunc(slices.Clone(s.Roots), func(r tool.Root) bool { return !r.Reported }))
			return nil
		}),
		Invalidate: func(_ context.Context, i tool.Invalidation) error {
			f.reports.Add(i)
			return nil
		},
		Health: f.health,
		Close: func() {
			f.symbols.close()
			f.indexes().Close()
		},
	}
}

func (f *finder) configure(c config) {
	if c.MaxLine != nil {
		f.maxLine = *c.MaxLine
	}
	if c.TimeLimit != nil {
		f.timeLimit = time.Duration(*c.TimeLimit) * time.Second
	}
	if c.Index != nil {
		f.indexed = *c.Index
	}
	if c.Memory != nil {
		f.options.Memory = int64(*c.Memory) << 20
	}
	if c.Freshness != "" {
		f.options.Freshness = index.Freshness(c.Freshness)
	}
}

// health returns a report on the indexes.
func (f *finder) health(context.Context, string) sdk.Health {
	r := f.indexes().Report()
	ready := 0
	for _, t := range r.Trees {
		if t.State == index.Ready {
			ready++
		}
	}
	return sdk.Health{
		Status: tool.Healthy, Message: fmt.Sprintf("%s ready, %d of %d MB", count(ready, "index"), r.Memory>>20,
			r.Limit>>20), Details: r.JSON(),
	}
}

// looking holds the traits of all tools of this plugin. The tools are read-only.
var looking = tool.Traits{ReadOnly: true, ConcurrencySafe: true, AutoExecute: true, Idempotent: true}

// count formats a number with a noun in singular or plural: "1 file", "2 files", "3 matches".
func count(n int, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "ch"), strings.HasSuffix(thing, "x"):
		return fmt.Sprintf("%d %ses", n, thing)
	case strings.HasSuffix(thing, "y"):
		return fmt.Sprintf("%d %sies", n, strings.TrimSuffix(thing, "y"))
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// withNotes appends notes to a text and marks each of them as a note.
func withNotes(text string, notes []string) string {
	if len(notes) == 0 {
		return text
	}
	marked := "[note: " + strings.Join(notes, "]\n[note: ") + "]"
	if text == "" {
		return marked
	}
	return text + "\n\n" + marked
}
