// Package webhook signs and verifies webhooks the Standard Webhooks way, with shared secrets. It needs the standard library
// only.
//
// Sender and receiver share a [Secret]. The sender puts three headers beside each body:
//
//	webhook-id: evt_789                                  the message, the same on every attempt
//	webhook-timestamp: 1771516800                        Unix seconds of this attempt
//	webhook-signature: v1,s2D9nxsS6QN8dFGLO/XrAm8+...    one or several signatures, with a space between
//
// A signature is "v1," and the base64 of HMAC-SHA256 over id, timestamp and body, joined with full stops; its key is the
// bytes that the secret encodes. The body is signed as it is sent, byte for byte: sign what is stored, verify what was
// read, and parse it after that. Encoding a body again makes another body.
//
// # Sending
//
// [SetHeaders] signs one attempt. Call it anew for each: a retry has the id of the first attempt, but a timestamp and so a
// signature of its own, or the receiver takes it for a replay. [ParseRetryAfter] reads how long a receiver asks to be left
// alone.
//
// # Receiving
//
// Read the whole body within a limit, then call [Verify] with it, the headers and the secrets that may be in use. The error
// tells what to answer. A message that verifies may still be one that arrived before, since an attempt whose answer was lost
// is repeated: remember ids, and answer a repeated one with 2xx.
//
// # Rotation
//
// To replace a secret without losing a message, let one side know both for a while. A sender passes the new and the old
// one to SetHeaders, and the receiver verifies with either. Or the receiver passes both to Verify, until the sender has
// changed over.
package webhook

// Names of the headers. HTTP gives no meaning to the case of a name, but some receivers do, and the specification writes
// lower case; so [SetHeaders] sends these names as they are, where [http.Header.Set] would send Webhook-Id.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)
