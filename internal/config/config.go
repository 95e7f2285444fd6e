// Package config reads, checks and describes the relay's configuration.
//
// Settings come from four places, each winning over the one before: the defaults, one file, the environment, flags.
// They carry the same names everywhere. Load reports every problem it finds at once, each with the key and what to do
// about it, and refuses names it does not know.
//
// The file holds KEY=value lines, the format that systemd's EnvironmentFile and a container's env file share, because
// its keys then are the documented variable names and nothing has to be translated. It needs no parser of others.
//
// The comment of each field of Config is the operator's documentation: docs/configuration.md is made from it.
package config

import (
	"log/slog"
	"net/netip"
	"time"
)

// Config is everything an operator can decide. Its zero value is not usable: start from Default or Load. It redacts
// itself wherever it is printed or logged.
//
// Tags: key is the name in file and environment, flag the name on the command line, as the parser, max the largest
// number taken, group opens a chapter of the documentation.
type Config struct {
	// File is the configuration file to read: KEY=value lines, # begins a comment line, a value may stand in single or
	// double quotes. It cannot be set inside a file.
	File string `group:"Where settings come from" key:"HERALD_CONFIG" flag:"config" as:"path"`

	// Listen is the address and port that requests are answered on. Keep it on loopback and put a proxy with TLS in front,
	// or set HERALD_TLS_DOMAIN, which changes the default to :443. Port 0 takes a free one; the ready line names it.
	Listen string `group:"Serving" key:"HERALD_LISTEN" flag:"listen" as:"address"`

	// Origin is the public address of the relay, such as https://relay.example: scheme, host and perhaps a port, no path. It
	// must be https, except on loopback. Links, pairing instructions and discovery documents name it. When it is empty
	// they follow the Host of each request, and a relay that listens on loopback answers loopback host names only.
	Origin string `key:"HERALD_ORIGIN" flag:"origin" as:"origin"`

	// TLSDomain makes the relay get and renew its own certificate for this host name by ACME. The certificate authority
	// connects to port 443 of that name, so Listen must be reachable there. Certificates are kept in HERALD_DATA.
	TLSDomain string `key:"HERALD_TLS_DOMAIN" flag:"tls-domain" as:"host"`

	// TrustedProxies lists the addresses, or ranges such as 10.0.0.0/8, of your own proxies, separated by commas. Only from
	// these are X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto believed; limits by address depend on it.
	TrustedProxies []netip.Prefix `key:"HERALD_TRUSTED_PROXIES" flag:"trusted-proxies" as:"prefixes"`

	// PrivateListen is the address for Prometheus metrics (/metrics) and profiles (/debug/pprof/), or off. Nothing
	// there asks who calls: keep it on loopback or a private network.
	PrivateListen string `key:"HERALD_PRIVATE_LISTEN" flag:"private-listen" as:"private"`

	// Grace is how long a stop waits for requests, waits and streams to end before it cuts them off, such as 10s.
	Grace time.Duration `key:"HERALD_GRACE" flag:"grace" as:"duration"`

	// LogFormat is text or json. Logs go to standard error and never hold notification text or secrets.
	LogFormat string `key:"HERALD_LOG_FORMAT" flag:"log-format" as:"choice" of:"text json"`

	// LogLevel is debug, info, warn or error: the least important kind of line that is written.
	LogLevel slog.Level `key:"HERALD_LOG_LEVEL" flag:"log-level" as:"level"`

	// Dev is for trying things on one machine: event subscriptions, once this version has them, may then call receivers on
	// http://127.0.0.1. The relay says so loudly, in /health too, and refuses to start with a public origin or a
	// listener that others can reach.
	Dev bool `key:"HERALD_DEV" flag:"dev" as:"bool"`

	// Data is the directory for everything the relay keeps: the embedded database, voice clips, generated secrets and
	// certificates. It is made when it is missing, readable by its owner only. The default is herald in $XDG_DATA_HOME
	// or in ~/.local/share.
	Data string `group:"Keeping" key:"HERALD_DATA" flag:"data" as:"path"`

	// Database is the URL of a PostgreSQL database, postgres://user:password@host/name. Empty means the embedded
	// database in HERALD_DATA. With PostgreSQL any number of relays may share it; all need the same RELAY_SECRET.
	Database Secret `key:"HERALD_DATABASE" flag:"database" as:"database"`

	// RelaySecret signs mailbox ids and voice links: 32 random bytes or more, written as text. With the embedded
	// database it is made on the first start and kept in HERALD_DATA. Changing it unpairs every device and voids every
	// agent key.
	RelaySecret Secret `group:"Secrets" key:"RELAY_SECRET" as:"secret" min:"32"`

	// PairingSecret, when set, must be sent in X-Pairing-Secret to begin a pairing: 8 characters or more. Without it
	// anybody who can reach the relay may pair, up to MAX_DEVICES.
	PairingSecret Secret `key:"PAIRING_SECRET" as:"secret" min:"8"`

	// NotificationsPerDay is how many notifications a mailbox takes per UTC day; then 429 daily_cap.
	NotificationsPerDay int `group:"Limits" key:"DEVICE_NOTIFICATIONS_PER_DAY" as:"count"`

	// QueueMax is how many undelivered notifications may wait for a mailbox; then 429 queue_full.
	QueueMax int `key:"DEVICE_QUEUE_MAX" as:"count"`

	// QueueTTL is how many hours an undelivered notification waits before it expires; fractions such as 0.5 are fine. Ids,
	// receipts and replies are kept for 24 hours however short it is.
	QueueTTL time.Duration `key:"QUEUE_TTL_HOURS" as:"hours" max:"8760"`

	// RequestsPerDay is the mailbox's request budget per UTC day. Agents are then refused with 503 budget_exhausted; devices
	// never are.
	RequestsPerDay int64 `key:"DEVICE_REQUESTS_PER_DAY" as:"count"`

	// PollSecondsPerDay is how many seconds a mailbox's agents may spend waiting for replies per UTC day; after that a
	// wait returns at once.
	PollSecondsPerDay int64 `key:"DEVICE_POLL_SECONDS_PER_DAY" as:"count"`

	// AudioUploadsPerDay is how many voice clips a mailbox takes per UTC day; then 429 daily_cap.
	AudioUploadsPerDay int64 `key:"DEVICE_AUDIO_UPLOADS_PER_DAY" as:"count"`

	// AudioBytesPerDay is how many bytes of voice clips a mailbox takes per UTC day; then 429 daily_cap.
	AudioBytesPerDay int64 `key:"DEVICE_AUDIO_BYTES_PER_DAY" as:"count" max:"1099511627776"`

	// MaxBodyBytes is the largest notification body, an embedded icon not counted; beyond it 413 too_large.
	MaxBodyBytes int `key:"MAX_BODY_BYTES" as:"count" max:"1048576"`

	// RateLimitPerKey is how many notifications one agent key may send in 10 minutes; then 429 rate_limited.
	RateLimitPerKey int `key:"RATE_LIMIT_PER_KEY" as:"count"`

	// MaxDevices is how many mailboxes one person may pair; then 403 device_limit. Devices linked to a mailbox do not count.
	MaxDevices int `key:"MAX_DEVICES" as:"count"`

	// PairStartsPerHour is how many pairings one address may begin per hour; then 429 rate_limited.
	PairStartsPerHour int `key:"PAIR_STARTS_PER_HOUR" as:"count"`

	// PairStartsGlobalPerHour is how many pairings may be begun per hour in all; then 429 rate_limited.
	PairStartsGlobalPerHour int `key:"PAIR_STARTS_GLOBAL_PER_HOUR" as:"count"`

	// RegisterPerHour is how many OAuth clients may register per hour, on the whole relay; then 429 rate_limited.
	RegisterPerHour int `key:"REGISTER_PER_HOUR" as:"count"`

	// EventCallbackHosts, when set, lists the only hosts that event subscriptions may call, separated by commas: public host
	// names or public IP addresses, matched whole, no wildcards. A subscription to another is refused, and one that was made
	// before is not called any more.
	EventCallbackHosts []string `group:"Other" key:"EVENT_CALLBACK_HOSTS" as:"hosts"`

	// BundleHash, when set, is shown as bundle by /health, so a deployment can tell which build answers.
	BundleHash string `key:"BUNDLE_HASH" as:"token"`

	sources map[string]string // by key: where the value came from; keys at their default are absent
	notes   []string          // what an operator should know although it stops nothing
}

// Default returns the configuration of a relay that was told nothing, except for Data, which depends on the
// environment.
func Default() Config {
	return Config{
		Listen:    "127.0.0.1:8787",
		Grace:     10 * time.Second,
		LogFormat: "text",
		LogLevel:  slog.LevelInfo,

		NotificationsPerDay:     500,
		QueueMax:                100,
		QueueTTL:                24 * time.Hour,
		RequestsPerDay:          5000,
		PollSecondsPerDay:       3000,
		AudioUploadsPerDay:      40,
		AudioBytesPerDay:        20 << 20,
		MaxBodyBytes:            32768,
		RateLimitPerKey:         60,
		MaxDevices:              5,
		PairStartsPerHour:       6,
		PairStartsGlobalPerHour: 300,
		RegisterPerHour:         30,
	}
}

// Embedded reports whether the relay keeps everything in its own data directory.
func (c Config) Embedded() bool { return c.Database == "" }

// ListensOnLoopback reports whether only this machine can reach the relay's own listener.
func (c Config) ListensOnLoopback() bool { return loopbackAddress(c.Listen) }

// Notes are remarks for the operator about settings that are allowed but perhaps not meant, in full sentences.
func (c Config) Notes() []string { return c.notes }
