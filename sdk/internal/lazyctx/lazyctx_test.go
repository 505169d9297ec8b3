package lazyctx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"toolhost.dev/sdk/internal/lazyctx"
)

func TestNobodyIsWokenUntilSomebodyAsks(t *testing.T) {
	watched := 0
	c := lazyctx.New(t.Context(), time.Now().Add(time.Hour), func() { watched++ })
	if d, ok := c.Deadline(); !ok || time.Until(d) < time.Minute {
		t.Errorf("deadline %v, %v", d, ok)
	}
	if watched != 0 {
		t.Error("watched without being asked")
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
	<-time.After(0)
	child, cancel := context.WithCancel(c)
	defer cancel()
	if watched != 1 {
		t.Errorf("watched %d times", watched)
	}
	why := errors.New("why")
	c.Cancel(why)
	c.Cancel(errors.New("later"))
	<-child.Done()
	if !errors.Is(context.Cause(child), why) || !errors.Is(context.Cause(c), why) || !errors.Is(c.Err(), context.Canceled) {
		t.Errorf("causes %v and %v, error %v", context.Cause(child), context.Cause(c), c.Err())
	}
}

func TestCanceledBeforeAnybodyAsked(t *testing.T) {
	c := lazyctx.New(t.Context(), time.Time{}, func() { t.Error("watched for what had come already") })
	why := errors.New("why")
	c.Cancel(why)
	<-c.Done()
	if !errors.Is(context.Cause(c), why) {
		t.Error(context.Cause(c))
	}
}

func TestParentEndsIt(t *testing.T) {
	parent, cancel := context.WithCancel(t.Context())
	outer := lazyctx.New(parent, time.Time{}, nil)
	watched := false
	inner := lazyctx.New(outer, time.Time{}, func() { watched = true })
	cancel()
	<-inner.Done()
	if !watched {
		t.Error("not watched")
	}
}
