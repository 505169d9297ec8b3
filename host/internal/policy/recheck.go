package policy

// Recheck decides again on an allowed call that had to wait. During the wait, other calls can change the targets of its
// paths. Recheck asks no person.
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
