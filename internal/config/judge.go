package config

import (
	"net"
	"net/url"
	"strings"
)

// judge applies the rules between settings, once every source was read, and fills the defaults that follow from others.
func (l *loader) judge() {
	l.judgeTLS()
	l.judgeDev()
	l.judgeListeners()
	l.judgeKeeping()
}

func (l *loader) judgeTLS() {
	c := &l.cfg
	if c.TLSDomain == "" {
		return
	}
	if c.sources["HERALD_LISTEN"] == "" {
		c.Listen = ":443"
	}
	if c.Origin == "" {
		c.Origin = "https://" + c.TLSDomain
	}
	if c.ListensOnLoopback() {
		l.rule("HERALD_TLS_DOMAIN", "the certificate authority cannot reach "+c.Listen, "listen on :443, or on the machine's public address")
	} else if _, port, _ := net.SplitHostPort(c.Listen); port != "443" {
		l.note("HERALD_TLS_DOMAIN needs port 443 of " + c.TLSDomain + " to lead to " + c.Listen + "; see to it that it is forwarded")
	}
	if u, _ := url.Parse(c.Origin); u.Hostname() != c.TLSDomain {
		l.rule("HERALD_ORIGIN", c.Origin+" names another host than HERALD_TLS_DOMAIN, "+c.TLSDomain, "make them equal, or leave the origin out")
	}
}

func (l *loader) judgeDev() {
	c := &l.cfg
	if !c.Dev {
		return
	}
	if c.TLSDomain != "" {
		l.rule("HERALD_DEV", "development mode cannot serve a public name", "drop --dev or HERALD_TLS_DOMAIN")
		return
	}
	if u, _ := url.Parse(c.Origin); c.Origin != "" && !loopbackHost(u.Hostname()) {
		l.rule("HERALD_DEV", "development mode refuses the public origin "+c.Origin, "drop --dev, or use an origin on localhost")
	}
	if !c.ListensOnLoopback() {
		l.rule("HERALD_DEV", "development mode refuses to listen on "+c.Listen+", which others can reach", "drop --dev, or listen on 127.0.0.1")
	}
}

func (l *loader) judgeListeners() {
	c := &l.cfg
	if c.PrivateListen != "" {
		_, port, _ := net.SplitHostPort(c.PrivateListen)
		if c.PrivateListen == c.Listen && port != "0" {
			l.rule("HERALD_PRIVATE_LISTEN", "it is the public listener's address", "give it a port of its own")
		}
		if !loopbackAddress(c.PrivateListen) {
			l.note("HERALD_PRIVATE_LISTEN shows metrics and profiles to everybody who can reach " + c.PrivateListen)
		}
	}
	if !c.ListensOnLoopback() && c.TLSDomain == "" && len(c.TrustedProxies) == 0 {
		l.note("the relay listens on " + c.Listen + " without TLS; put a TLS proxy in front and list it in HERALD_TRUSTED_PROXIES, or set HERALD_TLS_DOMAIN")
	}
	if strings.HasPrefix(c.Origin, "https:") && c.PairingSecret == "" {
		l.note("PAIRING_SECRET is not set: whoever can reach " + c.Origin + " may pair a device, up to MAX_DEVICES")
	}
}

func (l *loader) judgeKeeping() {
	c := &l.cfg
	if c.Data == "" {
		l.rule("HERALD_DATA", "there is no home directory to put it in", "name a directory with --data")
	}
	if !c.Embedded() && c.RelaySecret == "" {
		l.rule("RELAY_SECRET", "it is required with HERALD_DATABASE, where several relays may share one database",
			"make one with openssl rand -hex 32 and give it to every relay, or name a file in RELAY_SECRET_FILE")
	}
}

func (l *loader) rule(key, detail, hint string) { l.problem(key, l.cfg.sources[key], detail, hint) }
