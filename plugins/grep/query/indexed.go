package query

import (
	"toolhost.dev/plugins/grep/content"
	"toolhost.dev/plugins/grep/index"
	"toolhost.dev/plugins/grep/search"
	"toolhost.dev/plugins/grep/walk"
)

// indexed searches the files of an indexed tree. If subset is not nil, it searches only the files in subset.
func (r *run) indexed(s *index.Snapshot, o walk.Options, subset map[string]search.Window) error {
	c := s.Counts()
	r.walked.Add(c.NotWanted)
	r.symlink.Add(int64(c.Symlinks))
	r.special.Add(int64(c.Specials))
	r.binary.Add(int64(c.Binaries))
	r.searched.Add(int64(c.Texts + c.Binaries))
	literals := r.q.Pattern.Literals()
	need := content.Need{Sets: literals.Sets, Special: literals.Special, Apart: r.q.Pattern.Crossing()}
	s.Candidates(need, func(worker int, t index.Text) bool {
		shown := t.Shown()
		if _, ok := subset[shown]; ok || subset == nil {
			r.text(worker, t, spot{shown, t.Place()})
		}
		return r.ctx.Err() == nil
	}, func(worker int, i index.Item) bool {
		shown := i.Shown()
		if _, ok := subset[shown]; ok || subset == nil {
			f, err := i.Open()
			r.opened(worker, f, err, spot{shown, i.Place()})
			if i.Known() { // the file was already counted above
				r.searched.Add(-1)
			}
		}
		return r.ctx.Err() == nil
	})
	if err := r.ctx.Err(); err != nil {
		r.searched.Store(r.reached.Load())
		return err
	}
	return s.Trees(func(start walk.Start) error { return r.walk(start, o, subset) }, r.walked.Count)
}

// text searches a file whose text is in memory.
func (r *run) text(worker int, t index.Text, at spot) {
	w, keep := r.window(at)
	r.at[worker] = at
	var parts []search.Part
	for _, p := range t.Parts() {
		parts = append(parts, search.Part(p))
	}
	res, err := r.searcher(worker).Text(t.Bytes, parts, keep)
	if err != nil { // the context has ended
		return
	}
	r.reached.Add(1)
	if r.q.Searched != nil {
		r.q.Searched.Add(1)
	}
	r.found(worker, at, res, w, false)
}
