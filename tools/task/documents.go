package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// maxDecision is the maximum number of words of a decision in docs/adr.
const maxDecision = 400

var (
	linkRE    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	headingRE = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeRE    = regexp.MustCompile("(?ms)^```.*?^```$|`[^`\n]*`")
)

// checkDocuments checks the tracked documents.
func (t *task) checkDocuments() error {
	files, err := t.tracked()
	if err != nil {
		return err
	}
	return t.documents(files)
}

// documents returns an error that lists each link of a document that leads to no file or heading, and each decision that is longer
// than [maxDecision].
func (t *task) documents(files []string) error {
	var errs []error
	for _, f := range files {
		if filepath.Ext(f) != ".md" {
			continue
		}
		b, err := os.ReadFile(t.Path(f))
		if errors.Is(err, os.ErrNotExist) { // the file was deleted, but the deletion is not yet committed
			continue
		}
		if err != nil {
			return err
		}
		if ok, err := path.Match("docs/adr/0*.md", f); err != nil {
			return err
		} else if n := len(strings.Fields(string(b))); ok && n > maxDecision {
			errs = append(errs, fmt.Errorf("%s has %d words, the limit is %d: describe the feature beside its code", f, n, maxDecision))
		}
		for _, m := range linkRE.FindAllStringSubmatch(codeRE.ReplaceAllString(string(b), ""), -1) {
			if err := t.checkLink(f, m[1]); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f, err))
			}
		}
	}
	return errors.Join(errs...)
}

// checkLink returns an error if a link in a document leads to no file or heading. Links to other places are not checked.
func (t *task) checkLink(from, link string) error {
	if strings.Contains(link, ":") {
		return nil
	}
	file, heading, _ := strings.Cut(link, "#")
	to := from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if _, err := os.Stat(t.Path(to)); err != nil {
		return fmt.Errorf("the link %s leads to no file", link)
	}
	if heading == "" {
		return nil
	}
	b, err := os.ReadFile(t.Path(to))
	if err != nil {
		return err
	}
	for _, m := range headingRE.FindAllStringSubmatch(string(b), -1) {
		if anchor(m[1]) == heading {
			return nil
		}
	}
	return fmt.Errorf("the link %s leads to no heading", link)
}

var notInAnchors = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// anchor returns the name of a heading in links.
func anchor(heading string) string {
	return strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(heading), ""), " ", "-")
}
