package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// This expression matches phrases that comments should not use. CONTRIBUTING.md lists clearer words.
var avoid = regexp.MustCompile(`(?i)` + strings.Join([]string{
	`^// \w+ (gives|says|tells) `,           // better: returns, reports, is
	`\bsays (what|which|how|whether|why)\b`, // better: is, describes, reports
	`\bha(s|ve) (it|them|the \w+) [a-z]+ed\b`,
	`\bwhat (it|they|that) (is|are)\b`,
	`\b(those|one|he) who\b`,
	`\bthat which\b`,
	`\bthere (is|are) (not|none)\b`, `\bis none\b`,
	`\b(nil|empty|zero): `, // write instead: A nil X means …
	`\b(come|comes|came) to nothing\b`, `\bleft alone\b`, `\bhears? of\b`, `\bby (itself|themselves)\b`,
}, "|"))

// checkProse returns an error that lists each comment line that matches [avoid].
func (t *task) checkProse() error {
	var found []string
	for _, dir := range []string{"branch", "host", "plugins", "sandbox", "sdk", "shellscript"} {
		lines, err := avoided(t.Root, dir)
		if err != nil {
			return err
		}
		found = append(found, lines...)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("comments use phrases to avoid (CONTRIBUTING.md lists clearer words):\n%s", strings.Join(found, "\n"))
}

// avoided returns the comment lines below dir that match [avoid]. Each line is preceded by its file and line number.
func avoided(root, dir string) (found []string, err error) {
	sources := os.DirFS(root)
	err = fs.WalkDir(sources, dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, ".pb.go") {
			return err
		}
		b, err := fs.ReadFile(sources, path)
		if err != nil {
			return err
		}
		number := 0
		for line := range strings.Lines(string(b)) {
			number++
			if _, comment, ok := strings.Cut(line, "//"); ok && avoid.MatchString("//"+comment) {
				found = append(found, fmt.Sprintf("%s:%d: //%s", path, number, strings.TrimRight(comment, "\r\n")))
			}
		}
		return nil
	})
	return found, err
}
