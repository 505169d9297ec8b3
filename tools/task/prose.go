package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
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

// nameless matches the first line of a comment that does not begin with the name that it documents.
var nameless = regexp.MustCompile(`^// (The (method|function|type|field|constant|variable) "?\w+"? |This (method|function) )`)

// maxComment is the maximum width of a line that consists of a comment, with tabs of four columns. Examples, which are indented,
// and lists can be wider.
const maxComment = 120

// tooWide matches the text of a comment line whose width is limited.
var tooWide = regexp.MustCompile(`^// [^\s\d*#-]`)

// checkProse returns an error that lists each comment line that matches [avoid], and each line of code that is too wide.
func (t *task) checkProse() error {
	var found []string
	for _, dir := range []string{"branch", "host", "plugins", "sandbox", "sdk", "shellscript"} {
		lines, err := avoided(t.Root, dir)
		if err != nil {
			return err
		}
		code, err := wideCode(t.Root, dir)
		if err != nil {
			return err
		}
		found = slices.Concat(found, lines, code)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("comments use phrases to avoid (CONTRIBUTING.md lists clearer words), do not begin with a name, or comments or code have more than %d columns:\n%s", maxComment, strings.Join(found, "\n"))
}

// avoided returns the comment lines below dir that match [avoid], do not begin with a name, or are too wide. Each line is preceded by its file and line number.
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
		number, inComment := 0, false
		for line := range strings.Lines(string(b)) {
			number++
			text := strings.TrimSpace(line)
			begins := strings.HasPrefix(text, "//") && !inComment
			inComment = strings.HasPrefix(text, "//")
			wide := tooWide.MatchString(text) && utf8.RuneCountInString(strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")) > maxComment
			_, comment, ok := strings.Cut(line, "//")
			if ok && avoid.MatchString("//"+comment) || begins && nameless.MatchString(text) || wide {
				found = append(found, fmt.Sprintf("%s:%d: //%s", path, number, strings.TrimRight(comment, "\r\n")))
			}
		}
		return nil
	})
	return found, err
}
