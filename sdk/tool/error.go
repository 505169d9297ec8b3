package tool

import (
	"context"
	"errors"
	"fmt"
)

// Kind is the reason why a call failed. The set is closed.
type Kind string

// The kinds. An unknown kind on the wire becomes Internal.
const (
	NotFound         Kind = "not_found"
	InvalidArguments Kind = "invalid_arguments"
	PermissionDenied Kind = "permission_denied"
	Security         Kind = "security"
	Timeout          Kind = "timeout"
	Canceled         Kind = "canceled"
	Unavailable      Kind = "unavailable" // the plugin is down
	Conflict         Kind = "conflict"    // a file is not as the session knows it
	ExecutionFailed  Kind = "execution_failed"
	Internal         Kind = "internal"
)

// KnownKind reports whether k is one of the kinds.
func KnownKind(k Kind) bool {
	switch k {
	case NotFound, InvalidArguments, PermissionDenied, Security, Timeout, Canceled, Unavailable, Conflict, ExecutionFailed, Internal:
		return true
	}
	return false
}

// Source is the party that failed with an [Error].
type Source string

// The sources.
const (
	SourceTool   Source = "tool"   // the tool ran and could not do it
	SourceHost   Source = "host"   // the host refused or failed
	SourcePlugin Source = "plugin" // the plugin's process or its protocol failed
)

// Error is the error of a failed call. It matches by kind: errors.Is(err, &Error{Kind: NotFound}).
type Error struct {
	Kind Kind `json:"kind"`
	// Code is a number that the tool documents, or 0. The nine layers of edit validation are 1 to
	// 9. For a shell command the code is its exit status.
	Code int `json:"code"`
	// Message names the problem, then the remedy.
	Message string `json:"message"`
	// Source is set by the host.
	Source Source `json:"source,omitempty"`

	cause error
}

// Errorf returns an error of a kind. If the format has a %w, the error wraps its operand.
func Errorf(kind Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	cause := errors.Unwrap(err)
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		cause = errors.Join(several.Unwrap()...)
	}
	return &Error{Kind: kind, Message: err.Error(), cause: cause}
}

// WithCode returns a copy of e with the code set.
func (e *Error) WithCode(code int) *Error {
	c := *e
	c.Code = code
	return &c
}

// WithCause returns a copy of e that wraps cause. Use it if the message does not contain the cause.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// From returns a copy of e with the source set.
func (e *Error) From(s Source) *Error {
	c := *e
	c.Source = s
	return &c
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, or nil.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is an *Error of the same kind. If target has a code, that must be the
// same too.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Kind == e.Kind && (t.Code == 0 || t.Code == e.Code)
}

// AsError returns err as an *Error. If err wraps an *Error, AsError keeps its kind and code. It
// turns the end of a context into Canceled or Timeout, and anything else into ExecutionFailed. It
// returns nil for nil.
func AsError(err error) *Error {
	var e *Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		if err.Error() == e.Message {
			return e
		}
		return &Error{Kind: e.Kind, Code: e.Code, Source: e.Source, Message: err.Error(), cause: err}
	case errors.Is(err, context.Canceled):
		return &Error{Kind: Canceled, Message: "The call was canceled.", cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Kind: Timeout, Message: "The call exceeded its time limit.", cause: err}
	}
	return &Error{Kind: ExecutionFailed, Message: err.Error(), cause: err}
}
