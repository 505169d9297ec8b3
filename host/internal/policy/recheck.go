package policy

// Recheck judges a call once more that was let pass before it had to wait: what ran meanwhile may
// have changed where its paths lead. Nobody is asked again.
func (p *Policy) Recheck(req *Request) (*Decision, error) {
	d := p.Judge(req)
	switch {
	case d.Effect != Deny:
		return d, nil
	case d.err != nil:
		return d, d.err
	}
	return d, denied(req.Name, d)
}
