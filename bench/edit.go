package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"toolhost.dev/host"
	"toolhost.dev/plugins/edit/corpus"
)

// editCases is the name of an environment variable. Its value is the path of the file with the edit cases. See
// package corpus.
const editCases = "TOOLHOST_EDIT_CORPUS"

// edit runs each edit case on a file that the session has read. It also measures the time of an easy and of a difficult
// edit.
func edit(ctx context.Context, bin string) error {
	h, dir, done, err := sampleHost(ctx, bin)
	if err != nil {
		return err
	}
	defer done()
	if path := os.Getenv(editCases); path == "" {
		fmt.Printf("LEFT OUT: correctness. Name a file of cases in %s.\n", editCases)
	} else if err := editCorpus(ctx, h, dir, path); err != nil {
		return err
	}
	return editSpeed(ctx, h, dir)
}

func editCorpus(ctx context.Context, h *host.Host, dir, path string) error {
	cases, err := corpus.Load(path)
	if err != nil {
		return err
	}
	tally := make(corpus.Tally)
	for i := range cases {
		after, err := editCase(ctx, h, filepath.Join(dir, fmt.Sprint(i)), &cases[i])
		if err != nil {
			return fmt.Errorf("%s: %w", cases[i].ID, err)
		}
		v := cases[i].Judge(after)
		tally.Add(cases[i].Category, v)
		if v == corpus.Wrong {
			fmt.Printf("WRONG: %s (%s)\n", cases[i].ID, cases[i].Category)
		}
	}
	if err := tally.Print(os.Stdout); err != nil {
		return err
	}
	all, traps := tally.Total(""), tally.Total("trap")
	share := func(n int) float64 { return 100 * float64(n) / float64(max(1, len(cases))) }
	fmt.Printf("correct %.1f %%, at least 97: %s\n", share(all[corpus.Correct]), verdict(share(all[corpus.Correct]) >= 97))
	fmt.Printf("wrong %.1f %%, at most 0.5: %s\n", share(all[corpus.Wrong]), verdict(share(all[corpus.Wrong]) <= 0.5))
	fmt.Printf("wrong in traps %d, at most 0: %s\n", traps[corpus.Wrong], verdict(traps[corpus.Wrong] == 0))
	return nil
}

// editCase runs the edit of a case and returns the content of the edited file.
func editCase(ctx context.Context, h *host.Host, dir string, c *corpus.Case) (string, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	file := filepath.Join(dir, filepath.Base(c.FileName))
	if err := os.WriteFile(file, []byte(c.Before), 0o600); err != nil {
		return "", err
	}
	if res := invoke(ctx, h, "read", map[string]any{"file_path": file}); !res.Success() {
		return "", res.Error
	}
	res := invoke(ctx, h, "edit", map[string]any{"file_path": file, "old_string": c.OldString, "new_string": c.NewString, "replace_all": c.ReplaceAll})
	after, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if changed := string(after) != c.Before; changed != res.Success() {
		return "", fmt.Errorf("success is %v, but changed is %v", res.Success(), changed)
	}
	return string(after), nil
}

func invoke(ctx context.Context, h *host.Host, name string, args map[string]any) *host.Result {
	raw, err := json.Marshal(args)
	if err != nil {
		panic(err) // cannot happen, because the values are strings and booleans
	}
	return h.Run(ctx, host.Request{Name: name, Arguments: raw}, nil)
}

func editSpeed(ctx context.Context, h *host.Host, dir string) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush() //nolint:errcheck // the terminal
	const rounds = 40
	for _, m := range []struct {
		what  string
		lines int
		old   func(i int) string
		fails bool
		most  time.Duration
	}{
		{"an exact edit in 1 MB, p50", 18_000, func(i int) string { return fmt.Sprintf("compute(%d, %d", 9000*7, i) }, false, 5 * time.Millisecond},
		{"an edit that fails in 10 000 lines, p50", 10_000, func(int) string {
			return "\tif value5 := compute(35, 0, \"name\"); value5 > limit {\n\tnothing like this is there\n\tif value7 := compute(49, 0, \"name\"); value7 > limit {\n"
		}, true, 100 * time.Millisecond},
	} {
		file := filepath.Join(dir, "large.go")
		var text strings.Builder
		for i := range m.lines {
			fmt.Fprintf(&text, "\tif value%d := compute(%d, 0, \"name\"); value%d > limit {\n", i, i*7, i)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
			return err
		}
		if res := invoke(ctx, h, "read", map[string]any{"file_path": file, "limit": 1}); !res.Success() {
			return res.Error
		}
		var inside, disk []time.Duration
		for i := range rounds {
			if !m.fails { // also measure how long the disk takes for a durable write
				d, err := lastingWrite(filepath.Join(dir, "beside"), text.String())
				if err != nil {
					return err
				}
				disk = append(disk, d)
			}
			res := invoke(ctx, h, "edit", map[string]any{"file_path": file, "old_string": m.old(i), "new_string": m.old(i+1) + map[bool]string{true: "x"}[m.fails]})
			if !m.fails && !res.Success() {
				return res.Error
			}
			if m.fails && (res.Success() || !strings.Contains(res.Error.Message, "was not found")) {
				return fmt.Errorf("%s: the edit does not fail, or fails for another reason", m.what)
			}
			inside = append(inside, res.Run.ExecutionTime)
		}
		p50, less := median(inside), ""
		if len(disk) > 0 {
			less = fmt.Sprintf("of %s, %s of them the disk's", micros(p50), micros(median(disk)))
			p50 -= median(disk)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\tat most %s\t%s\n", m.what, micros(p50), less, micros(m.most), verdict(p50 <= m.most))
	}
	return nil
}

// lastingWrite measures the time of a durable file replacement. It writes and syncs a new file, renames the file and
// syncs the directory.
func lastingWrite(path, text string) (time.Duration, error) {
	began := time.Now()
	f, err := os.Create(path + ".new")
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(text)
	dir, openErr := os.Open(filepath.Dir(path))
	if err = errors.Join(err, f.Sync(), f.Close(), os.Rename(path+".new", path), openErr); err == nil {
		err = errors.Join(dir.Sync(), dir.Close())
	}
	return time.Since(began), err
}
