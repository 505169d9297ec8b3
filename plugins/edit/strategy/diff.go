package strategy

// hunk is a difference between two lists of lines. The lines old[oldFrom:oldTo] were replaced by new[newFrom:newTo].
// The lines between two hunks are equal in both lists.
type hunk struct{ oldFrom, oldTo, newFrom, newTo int }

// maxDiffCells limits the size of a comparison table. If the lists are too long for a table, only lines that occur once
// are matched.
const maxDiffCells = 4 << 20

// diffLines returns the hunks between two lists of lines.
func diffLines(old, theirs []string) []hunk {
	d := differ{old: old, new: theirs}
	d.compare(0, len(old), 0, len(theirs))
	return d.hunks
}

type differ struct {
	old, new []string
	hunks    []hunk
}

func (d *differ) compare(a, b, c, e int) {
	for a < b && c < e && d.old[a] == d.new[c] {
		a++
		c++
	}
	for a < b && c < e && d.old[b-1] == d.new[e-1] {
		b--
		e--
	}
	switch {
	case a == b && c == e:
	case a == b || c == e:
		d.add(hunk{a, b, c, e})
	case (b-a)*(e-c) <= maxDiffCells:
		d.table(a, b, c, e)
	default:
		d.anchors(a, b, c, e)
	}
}

func (d *differ) add(h hunk) {
	if n := len(d.hunks); n > 0 && d.hunks[n-1].oldTo == h.oldFrom && d.hunks[n-1].newTo == h.newFrom {
		d.hunks[n-1].oldTo, d.hunks[n-1].newTo = h.oldTo, h.newTo
		return
	}
	d.hunks = append(d.hunks, h)
}

// table matches the lines of a longest common subsequence.
func (d *differ) table(a, b, c, e int) {
	width := e - c + 1
	longest := make([]int32, (b-a+1)*width)
	at := func(i, j int) *int32 { return &longest[(i-a)*width+j-c] }
	for i := b - 1; i >= a; i-- {
		for j := e - 1; j >= c; j-- {
			if d.old[i] == d.new[j] {
				*at(i, j) = *at(i+1, j+1) + 1
			} else {
				*at(i, j) = max(*at(i+1, j), *at(i, j+1))
			}
		}
	}
	for i, j := a, c; i < b || j < e; {
		switch {
		case i < b && j < e && d.old[i] == d.new[j]:
			i++
			j++
		case j == e || i < b && *at(i+1, j) >= *at(i, j+1):
			d.add(hunk{i, i + 1, j, j})
			i++
		default:
			d.add(hunk{i, i, j, j + 1})
			j++
		}
	}
}

// anchors matches lines that occur exactly once in each list, if they have the same order in both lists. It then
// compares the lines between the matched lines.
func (d *differ) anchors(a, b, c, e int) {
	count := make(map[string][2]int32)
	where := make(map[string]int)
	for i := a; i < b; i++ {
		n := count[d.old[i]]
		n[0]++
		count[d.old[i]] = n
	}
	for j := c; j < e; j++ {
		n := count[d.new[j]]
		n[1]++
		count[d.new[j]], where[d.new[j]] = n, j
	}
	from, to, tied := a, c, false
	for i := a; i < b; i++ {
		j := where[d.old[i]]
		if count[d.old[i]] != [2]int32{1, 1} || j < to {
			continue
		}
		d.compare(from, i, to, j)
		from, to, tied = i+1, j+1, true
	}
	if !tied {
		d.add(hunk{a, b, c, e})
		return
	}
	d.compare(from, b, to, e)
}
