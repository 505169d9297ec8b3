package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// prose is the name of a file. The file contains the permitted number of comment lines that match [avoid].
const prose = "tools/task/prose.txt"

// This expression matches phrases that comments should not use. CONTRIBUTING.md lists clearer words.
var avoid = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`^// \w+ (gives|says|tells) `,           // better: returns, reports, is
	`\bsays (what|which|how|whether|why)\b`, // better: is, describes, reports
	`\bha(s|ve) (it|them|the \w+) [a-z]+ed\b`,
	`\bwhat (it|they|that) (is|are)\b`,
	`\b(those|one|he) who\b`,
	`\bthat which\b`,
	`\bthere (is|are) (not|none)\b`, `\bis none\b`,
	`\b(nil|empty|zero): `, // better: A nil X means …
	`\b(take|takes|taken|took) over\b`, `\b(come|comes|came) to nothing\b`, `\bleft alone\b`, `\bhears? of\b`, `\bby (itself|themselves)\b`,
}, "|"))

// checkProse compares the number of comment lines that match [avoid] with the permitted number.
func (t *task) checkProse() error {
	count := 0
	for _, dir := range []string{"host", "sdk", "plugins"} {
		n, err := countProse(t.Path(dir))
		if err != nil {
			return err
		}
		count += n
	}
	b, err := os.ReadFile(t.Path(prose))
	if err != nil {
		return err
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(b)))
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", prose, err)
	case count > limit:
		return fmt.Errorf("%d comment lines use phrases to avoid, the limit is %d; rewrite what you added (see CONTRIBUTING.md)", count, limit)
	case count < limit:
		return fmt.Errorf("%d comment lines use phrases to avoid, the limit is %d; lower it in %s", count, limit, prose)
	}
	return nil
}

// countProse returns the number of comment lines below dir that match [avoid].
func countProse(dir string) (count int, err error) {
	sources := os.DirFS(dir)
	err = fs.WalkDir(sources, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		for line := range strings.Lines(string(b)) {
			if _, comment, ok := strings.Cut(line, "//"); ok && avoid.MatchString("//"+comment) {
				count++
			}
		}
		return err
	})
	return count, err
}
