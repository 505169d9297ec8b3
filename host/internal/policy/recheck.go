package policy

// Recheck decides again on a call that was allowed and then had to wait. Other calls can have changed the targets of its
// paths meanwhile. Recheck asks no person.
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
