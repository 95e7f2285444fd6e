package credential

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
)

// Sealer encrypts what must be read again, such as the signing secrets of subscriptions (decision 16): AES-256-GCM, with a
// random nonce in front. It is safe for concurrent use.
type Sealer struct{ aead cipher.AEAD }

// Sealer returns the sealer of a purpose. What another purpose, or another relay, sealed does not open.
func (s *Signer) Sealer(purpose string) *Sealer {
	block, err := aes.NewCipher(s.derive("herald seal " + purpose))
	if err != nil {
		panic("credential: AES refuses a key of 32 bytes: " + err.Error())
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		panic("credential: GCM refuses AES: " + err.Error())
	}
	return &Sealer{aead}
}

// Seal encrypts secret, bound to context: it opens with the same one only.
func (s *Sealer) Seal(secret []byte, context string) ([]byte, error) {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(secret)+s.aead.Overhead())
	rand.Read(nonce)
	return s.aead.Seal(nonce, nonce, secret, []byte(context)), nil
}

// Open reverses Seal.
func (s *Sealer) Open(sealed []byte, context string) ([]byte, error) {
	size := s.aead.NonceSize()
	if len(sealed) < size {
		return nil, errSealed
	}
	secret, err := s.aead.Open(nil, sealed[:size], sealed[size:], []byte(context))
	if err != nil {
		return nil, errSealed
	}
	return secret, nil
}

var errSealed = errors.New("credential: a sealed secret does not open; was RELAY_SECRET changed?")
