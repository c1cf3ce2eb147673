package grammar

import "errors"

// Token is a token id.
type Token = int32

// ErrRejected reports a token that the grammar does not allow at this point.
var ErrRejected = errors.New("grammar: token is not allowed here")
