package local

// The schemas of what tools take and answer. Objects that the relay writes are open: a newer one may say more.
const (
	newKeySchema = `{"type":"object","properties":{` +
		`"name":{"type":"string","pattern":"^[a-z0-9][a-z0-9-]{0,31}$","description":"What the agent is called, unique among active keys."},` +
		`"client":{"type":"string","enum":["claude","codex","other"],"default":"other","description":"What kind of agent it is."}},` +
		`"required":["name"],"additionalProperties":false}`
	revokeSchema = `{"type":"object","properties":{` +
		`"id":{"type":"string","pattern":"^[0-9a-f]{8}$","description":"The id of the key, or of the connector as list_connectors shows it."},` +
		`"purge":{"type":"boolean","default":false,"description":"Also remove it from the list, with everything it sent."}},` +
		`"required":["id"],"additionalProperties":false}`
	wayOfSchema = `{"type":"object","properties":{` +
		`"client":{"type":"string","enum":["chatgpt","claude","codex","device"]}},` +
		`"required":["client"],"additionalProperties":false}`
	endSchema = `{"type":"object","properties":{` +
		`"id":{"type":"string","pattern":"^sub_[0-9a-f]{20}$","description":"The subscription's id, as relay_events shows it."}},` +
		`"required":["id"],"additionalProperties":false}`

	problemSchema = `{"type":"object","properties":{"error":{"type":"string"},"message":{"type":"string"},"hint":{"type":"string"}},"required":["error","message"]}`
	statusSchema  = `{"type":"object","properties":{` +
		`"paired":{"type":"boolean"},` +
		`"state":{"type":"string","enum":["unpaired","online","offline","error"],"description":"online while a device of the mailbox is connected, offline while none is"},` +
		`"relay":{"type":"string"},"deviceId":{"type":"string"},"deviceName":{"type":"string"},"lastSeenAt":{"type":"string"},` +
		`"pending":{"type":"integer","description":"notifications that wait for a device"},` +
		`"quietHours":{"type":"object","properties":{"active":{"type":"boolean"},"until":{"type":"string"}},"required":["active"]},` +
		`"keys":{"type":"integer","description":"active agent keys and connectors"},` +
		`"problem":` + problemSchema + `},"required":["paired","state"]}`
	usageSchema = `{"type":"object","properties":{` +
		`"day":{"type":"string"},"requests":{"type":"integer"},"notifications":{"type":"integer"},"queued":{"type":"integer"},` +
		`"requestsPercent":{"type":"integer"},"budgetExhausted":{"type":"boolean"},"limits":{"type":"object"}},` +
		`"required":["day","requests","notifications","limits"]}`
	trialSchema = `{"type":"object","properties":{` +
		`"ok":{"type":"boolean"},"state":{"type":"string","enum":["displayed","suppressed","queued"]},` +
		`"reason":{"type":"string"},"message":{"type":"string"}},"required":["ok","state","message"]}`
	madeSchema = `{"type":"object","properties":{` +
		`"id":{"type":"string"},"name":{"type":"string"},"client":{"type":"string"},"scope":{"type":"string"},"kind":{"type":"string"},` +
		`"key":{"type":"string","description":"the secret, shown this once"},"createdAt":{"type":"string"},"relay":{"type":"string"}},` +
		`"required":["id","name","key","relay"]}`
	revokedSchema = `{"type":"object","properties":{` +
		`"revoked":{"type":"boolean"},"id":{"type":"string"},"purged":{"type":"boolean"}},"required":["revoked","id"]}`
	connectorsSchema = `{"type":"object","properties":{` +
		`"connectors":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},"displayName":{"type":"string"},` +
		`"scope":{"type":"string"},"createdAt":{"type":"string"},"lastUsedAt":{"type":"string"}},"required":["id","name","displayName"]}},` +
		`"waiting":{"type":"array","items":{"type":"object","properties":{"clientName":{"type":"string"},"redirectHost":{"type":"string"},` +
		`"flow":{"type":"string"},"userCode":{"type":"string"},"createdAt":{"type":"string"},"expiresAt":{"type":"string"}},"required":["clientName","flow"]}}},` +
		`"required":["connectors","waiting"]}`
	instructionsSchema = `{"type":"object","properties":{` +
		`"client":{"type":"string"},"relay":{"type":"string"},"mcpUrl":{"type":"string"},` +
		`"steps":{"type":"array","items":{"type":"string"}}},"required":["client","relay","mcpUrl","steps"]}`
	eventsSchema = `{"type":"object","properties":{` +
		`"restrictedTo":{"type":"array","items":{"type":"string"},"description":"the only hosts that may be called; any public one when empty"},` +
		`"subscriptions":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"event":{"type":"string"},"host":{"type":"string"},` +
		`"key":{"type":"object"},"createdAt":{"type":"string"},"pending":{"type":"integer"}},"required":["id","event","host"]}}},` +
		`"required":["restrictedTo","subscriptions"]}`
	removedSchema = `{"type":"object","properties":{"removed":{"type":"boolean"},"id":{"type":"string"}},"required":["removed","id"]}`
)
