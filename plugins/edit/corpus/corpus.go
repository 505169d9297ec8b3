// Package corpus tests an edit engine with cases from a JSON Lines file. It compares each edited file with the
// expected file. The JSON Lines file is not part of this repository.
package corpus

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

// Case is one test case, which is a line of the JSON Lines file.
type Case struct {
	ID         string `json:"id"`
	Category   string `json:"category"`
	FileName   string `json:"file_name"`
	Before     string `json:"before"`
	OldString  string `json:"old_string"`
	NewString  string `json:"new_string"`
	ReplaceAll bool   `json:"replace_all"`
	Expect     struct {
		// After is the expected content. A nil After means that the engine must refuse the edit.
		After *string `json:"after"`
		// AlsoOK contains further acceptable contents.
		AlsoOK []string `json:"also_ok"`
		// RefuseOK means that the engine is also allowed to refuse the edit.
		RefuseOK bool `json:"refuse_ok"`
		// BlankInsensitive means that the comparison ignores blank lines.
		BlankInsensitive bool `json:"blank_insensitive"`
	} `json:"expect"`
}

// Load reads the cases of a file.
func Load(path string) ([]Case, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	var cases []Case
	for in := json.NewDecoder(bufio.NewReader(f)); ; {
		var c Case
		switch err := in.Decode(&c); err {
		case nil:
			cases = append(cases, c)
		case io.EOF:
			return cases, nil
		default:
			return nil, fmt.Errorf("%s: row %d: %w", path, len(cases)+1, err)
		}
	}
}

// Verdict is the assessment of one edit.
type Verdict int

// The possible verdicts. Wrong means that the engine made a wrong change. Refused means that the engine wrongly refused
// the edit.
const (
	Correct Verdict = iota
	Wrong
	Refused
)

func (v Verdict) String() string { return [...]string{"correct", "WRONG", "refused"}[v] }

// Judge compares the content after an edit with the expected content.
func (c *Case) Judge(after string) Verdict {
	if after == c.Before {
		if c.Expect.After == nil || c.Expect.RefuseOK || *c.Expect.After == c.Before {
			return Correct
		}
		return Refused
	}
	good := slices.Clone(c.Expect.AlsoOK)
	if c.Expect.After != nil {
		good = append(good, *c.Expect.After)
	}
	for _, g := range good {
		if g == after || c.Expect.BlankInsensitive && withoutBlankLines(g) == withoutBlankLines(after) {
			return Correct
		}
	}
	return Wrong
}

func withoutBlankLines(s string) string {
	return strings.Join(slices.DeleteFunc(strings.Split(s, "\n"),
		func(l string) bool { return strings.TrimSpace(l) == "" }), "\n")
}

// Tally counts verdicts by category.
type Tally map[string]*[3]int

// Add adds a verdict.
func (t Tally) Add(category string, v Verdict) {
	if t[category] == nil {
		t[category] = new([3]int)
	}
	t[category][v]++
}

// Total returns the number of cases with each verdict in the categories whose names start with prefix.
func (t Tally) Total(prefix string) (n [3]int) {
	for category, m := range t {
		if strings.HasPrefix(category, prefix) {
			for v := range m {
				n[v] += m[v]
			}
		}
	}
	return n
}

// Print prints the counts as a table.
func (t Tally) Print(w io.Writer) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, n [3]int) {
		fmt.Fprintf(out, "%s\t%d\t%d\t%d\t\n", name, n[Correct], n[Wrong], n[Refused])
	}
	fmt.Fprintln(out, "category\tcorrect\twrong\trefused\t")
	for _, category := range slices.Sorted(maps.Keys(t)) {
		row(category, *t[category])
	}
	row("ALL", t.Total(""))
	return out.Flush()
}
