package outline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sort"

	"toolhost.dev/plugins/grep/grammar"
	"toolhost.dev/plugins/grep/symbol"
)

const (
	// MaxText is the maximum length of a text in bytes.
	MaxText = 16 << 20
	// maxGo is the maximum length in bytes of a text for Go's parser.
	maxGo = 8 << 20
)

// Outliner finds the declarations in texts. It is safe for concurrent use.
type Outliner struct{ grammars *grammar.Set }

// New returns an outliner.
func New() *Outliner { return &Outliner{grammars: grammar.NewSet()} }

// Close frees the memory of the outliner.
func (o *Outliner) Close() { o.grammars.Close() }

// Table returns the declarations of a text. The name of the file determines the language. If the parser fails, the
// table contains the lines that look like declarations, and Problem is set. A non-nil error is the error of ctx.
func (o *Outliner) Table(ctx context.Context, name string, text []byte) (*symbol.Table, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d := parsedAs(name, text)
	if d.language != Go && d.grammar == "" {
		return byLines(text), nil
	}
	if len(text) > MaxText || d.language == Go && len(text) > maxGo {
		return unparsed(text, fmt.Sprintf("the file is larger than %d MB", min(len(text), maxGo)>>20)), nil
	}
	var t *symbol.Table
	var err error
	if d.language == Go {
		t, err = goTable(text)
	} else {
		t, err = o.parsed(ctx, d, text)
		if err == nil && t.Broken && (d.grammar == "c" || d.grammar == "cpp") {
			t = o.withoutMacros(ctx, d, text, t)
		}
	}
	switch {
	case err == nil:
		return t, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, grammar.ErrTooLarge):
		return unparsed(text, "the file is too large for the parser"), nil
	case errors.Is(err, grammar.ErrEffort):
		return unparsed(text, "the parser took too long"), nil
	}
	return unparsed(text, err.Error()), nil
}

// parsed returns the declarations that the grammar of a dialect finds.
func (o *Outliner) parsed(ctx context.Context, d dialect, text []byte) (t *symbol.Table, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser failed: %v", p)
		}
	}()
	parseErr := o.grammars.Parse(ctx, d.grammar, text, func(tree *grammar.Tree) { t = treeTable(d.grammar, tree) })
	return t, parseErr
}

// withoutMacros parses a text again with blanks in place of its macros. If the new table has more symbols or no
// errors, it returns the new table. Otherwise it returns t.
func (o *Outliner) withoutMacros(ctx context.Context, d dialect, text []byte, t *symbol.Table) *symbol.Table {
	rest := withoutMacros(text)
	if rest == nil {
		return t
	}
	better, err := o.parsed(ctx, d, rest)
	if err != nil || better.Broken && len(better.Symbols) <= len(t.Symbols) {
		return t
	}
	return better
}

// unparsed returns a table of the lines that look like declarations. The argument "why" is the reason for which the
// text was not parsed.
func unparsed(text []byte, why string) *symbol.Table {
	t := byLines(text)
	t.Problem = why
	return t
}

// lines holds the start offset of each line in a text.
type lines []int

func linesOf(text []byte) lines {
	out := make(lines, 1, bytes.Count(text, []byte("\n"))+1)
	for i := 0; ; i++ {
		n := bytes.IndexByte(text[i:], '\n')
		if n < 0 {
			return out
		}
		i += n
		out = append(out, i+1)
	}
}

// position returns the line and the column of an offset. Lines and columns count from 1.
func (l lines) position(pos int) (line, column int32) {
	i := sort.SearchInts(l, pos+1)
	return int32(i), int32(pos - l[i-1] + 1) // #nosec G115 -- less than MaxText
}
