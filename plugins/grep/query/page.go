package query

import "toolhost.dev/plugins/grep/search"

// Group holds the lines of a match, or of several matches that share lines, with their context. Answers that list only
// files or counts contain no groups.
type Group struct {
	Before, Lines, After []search.Line
}

// MaxText limits the size of the texts in an answer. Lines that are the context of several matches count several times.
const MaxText = 8 << 20

// entryCost is the formatted size of a result besides its text.
const entryCost = 128

// lines adds up to limit matches with their lines to an answer. A limit of 0 adds all matches whose lines are present.
func (c *collection) lines(a *Answer, limit int, o search.Options) {
	c.sort()
	size := 0
	for _, f := range c.files {
		if limit > 0 && a.Given == limit || size > MaxText {
			return
		}
		file := f.file()
		for _, g := range groups(f.Lines, o) {
			if limit > 0 && a.Given == limit || size > MaxText {
				break
			}
			size += g.size(f.path)
			file.Groups = append(file.Groups, g)
			a.Given++
		}
		if len(file.Groups) > 0 || file.Hidden {
			a.Files = append(a.Files, file)
		}
		if len(file.Groups) < f.wanted {
			return // lines of the next matches were dropped, so the answer ends here
		}
	}
}

// numbers adds the files with numbers in [from,to) to an answer.
func (c *collection) numbers(a *Answer, from, to int) {
	c.sort()
	size := 0
	for _, f := range c.files[min(from, len(c.files)):min(to, len(c.files))] {
		if size > MaxText {
			return
		}
		size += len(f.path) + entryCost
		a.Files = append(a.Files, f.file())
		a.Given++
	}
}

func (f *found) file() File {
	return File{Path: f.path, Matches: f.Matches, Binary: f.Binary, Hidden: f.BinaryMatch}
}

// groups groups lines by the match they belong to.
func groups(lines []search.Line, o search.Options) []Group {
	var out []Group
	for i := 0; i < len(lines); {
		if lines[i].Column == 0 {
			i++
			continue
		}
		end := i + 1
		for end < len(lines) && lines[end].Match && lines[end].Column == 0 {
			end++
		}
		from, to := i, end
		for from > 0 && lines[from-1].Number >= lines[i].Number-o.Before {
			from--
		}
		for to < len(lines) && lines[to].Number <= lines[end-1].Number+o.After {
			to++
		}
		out = append(out, Group{Before: lines[from:i], Lines: lines[i:end], After: lines[end:to]})
		i = end
	}
	return out
}

func (g *Group) size(path string) int {
	n := len(path) + entryCost
	for _, part := range [][]search.Line{g.Before, g.Lines, g.After} {
		for _, l := range part {
			n += len(path) + len(l.Text)
		}
	}
	return n
}
