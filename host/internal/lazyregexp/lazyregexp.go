// Package lazyregexp provides regular expressions that are compiled at their first use. Most runs of the host use few
// of its expressions, and compiling all of them would delay each start.
package lazyregexp

import (
	"regexp"
	"sync"
)

// Regexp is a regular expression of package regexp. It is safe for concurrent use.
type Regexp struct{ compiled func() *regexp.Regexp }

// New returns a regular expression. If the syntax is invalid, the first use panics.
func New(expression string) *Regexp {
	return &Regexp{sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })}
}

// MatchString is [regexp.Regexp.MatchString].
func (r *Regexp) MatchString(s string) bool { return r.compiled().MatchString(s) }

// FindString is [regexp.Regexp.FindString].
func (r *Regexp) FindString(s string) string { return r.compiled().FindString(s) }

// FindAllString is [regexp.Regexp.FindAllString].
func (r *Regexp) FindAllString(s string, n int) []string { return r.compiled().FindAllString(s, n) }

// FindStringSubmatch is [regexp.Regexp.FindStringSubmatch].
func (r *Regexp) FindStringSubmatch(s string) []string { return r.compiled().FindStringSubmatch(s) }

// FindAllStringSubmatch is [regexp.Regexp.FindAllStringSubmatch].
func (r *Regexp) FindAllStringSubmatch(s string, n int) [][]string {
	return r.compiled().FindAllStringSubmatch(s, n)
}

// ReplaceAllString is [regexp.Regexp.ReplaceAllString].
func (r *Regexp) ReplaceAllString(src, replacement string) string {
	return r.compiled().ReplaceAllString(src, replacement)
}

// FindAllStringSubmatchIndex is [regexp.Regexp.FindAllStringSubmatchIndex].
func (r *Regexp) FindAllStringSubmatchIndex(s string, n int) [][]int {
	return r.compiled().FindAllStringSubmatchIndex(s, n)
}

// FindSubmatch is [regexp.Regexp.FindSubmatch].
func (r *Regexp) FindSubmatch(b []byte) [][]byte { return r.compiled().FindSubmatch(b) }

// Split is [regexp.Regexp.Split].
func (r *Regexp) Split(s string, n int) []string { return r.compiled().Split(s, n) }
