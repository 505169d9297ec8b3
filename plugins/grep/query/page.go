package query

import "toolhost.dev/plugins/grep/search"

// Group holds the lines and the context of one match. Matches that share lines are in one group. If an answer lists
// only files or counts, it contains no groups.
type Group struct {
	Before, Lines, After []search.Line
}

// MaxText limits the size in bytes of the texts in an answer. A line that is the context of several matches counts
// once for each match.
const MaxText = 8 << 20

// entryCost is the number of bytes that the format of a result adds to the text of the result.
const entryCost = 128

// lines adds matches with their lines to an answer, up to the number in the argument "limit". If the limit is 0,
// it adds all matches whose lines are kept.
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
			return // the lines of the next match were dropped, so the answer must end here
		}
	}
}

// numbers adds the files with indices in [from,to) to an answer.
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

// groups divides the lines of a file into groups, one for each match.
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
