package postgres

import "github.com/herald-relay/herald/internal/relay"

// StatementsForTest are all statements but those of migrations and the bus, by the name of their constant.
var StatementsForTest = map[string]string{
	"lockDirectory": lockDirectory, "lockBoxes": lockBoxes, "freeSQL": freeSQL, "insertSQL": insertSQL, "saveSQL": saveSQL,
	"countSQL": countSQL, "addSent": addSent, "addUsage": addUsage, "beginUsage": beginUsage, "admitSQL": admitSQL,
	"createPerson": createPerson, "findPerson": findPerson, "lockPersonBoxes": lockPersonBoxes,
	"deletePersonNotes": deletePersonNotes, "deletePersonUsage": deletePersonUsage, "deletePersonBoxes": deletePersonBoxes,
	"deletePerson": deletePerson, "createMailbox": createMailbox, "getMailbox": getMailbox, "listMailboxes": listMailboxes,
	"setState": setState, "deleteBoxNotes": deleteBoxNotes, "deleteBoxUsage": deleteBoxUsage, "deleteBox": deleteBox,
	"lockIdle": lockIdle, "idleMailboxes": idleMailboxes, "stillIdle": stillIdle, "createDevice": createDevice,
	"listDevices": listDevices, "heard": heard, "openStream": openStream, "closeStream": closeStream,
	"deleteDevice": deleteDevice, "createKey": createKey, "getKey": getKey, "listKeys": listKeys, "countKeys": countKeys,
	"revokeKey": revokeKey, "purgeKey": purgeKey, "touchKey": touchKey, "getNote": getNote, "sentNote": sentNote,
	"sentMadeNote": sentMadeNote, "viewAdmission": viewAdmission, "lastKeySeq": lastKeySeq, "isWaiting": isWaiting,
	"waitingNotes": waitingNotes, "sizeOf": sizeOf, "expireBox": expireBox, "lockDue": lockDue, "expireAny": expireAny,
	"lockOld": lockOld, "forgetOld": forgetOld, "getUsage": getUsage, "forgetUsage": forgetUsage, "createCode": createCode,
	"takeCode": takeCode, "countCodes": countCodes, "countAddressCodes": countAddressCodes, "forgetCodes": forgetCodes,
	"addMark": addMark, "countMarks": countMarks, "countSubjectMarks": countSubjectMarks, "forgetMarks": forgetMarks,
	"deletePersonAsked": deletePersonAsked, "deleteBoxAsked": deleteBoxAsked, "putClient": putClient,
	"getClient": getClient, "trimClients": trimClients, "getGrant": getGrant, "findRefresh": findRefresh,
	"listGrants": listGrants, "createGrant": createGrant, "endGrant": endGrant, "addToken": addToken,
	"trimTokens": trimTokens, "getToken": getToken, "endToken": endToken, "addAudit": addAudit, "listAudit": listAudit,
	"forgetAudit": forgetAudit, "createConsent": createConsent, "saveConsent": saveConsent, "getConsent": getConsent,
	"findConsent": findConsent, "findUserCode": findUserCode, "listConsents": listConsents,
	"pendingConsents": pendingConsents, "overdueConsents": overdueConsents, "forgetConsents": forgetConsents,
	"appendEvent": appendEvent, "giveBack": giveBack, "knownEvent": knownEvent, "lockHead": lockHead, "readHead": readHead,
	"newestEvent": newestEvent, "eventsSince": eventsSince, "readEvents": readEvents, "getEvent": getEvent,
	"oldLedgers": oldLedgers, "forgetFront": forgetFront, "findVerified": findVerified, "recordVerified": recordVerified,
	"withdrawVerified": withdrawVerified, "forgetVerified": forgetVerified, "getSubscription": getSubscription,
	"findSubscription": findSubscription, "insertSubscription": insertSubscription, "updateSubscription": updateSubscription,
	"saveLane": saveLane, "setHealth": setHealth, "listPrincipals": listPrincipals, "listLedgers": listLedgers,
	"countPrincipals": countPrincipals, "countLedgerSubscriptions": countLedgerSubscriptions,
	"matchSubscriptions": matchSubscriptions, "lapsedSubscriptions": lapsedSubscriptions, "oldSubscriptions": oldSubscriptions,
	"forgetTheirAttempts": forgetTheirAttempts, "forgetTheirDeliveries": forgetTheirDeliveries,
	"forgetSubscriptions": forgetSubscriptions, "lockLanes": lockLanes, "settleLanes": settleLanes, "lanesOf": lanesOf,
	"dueLanes": dueLanes, "claimable": claimable, "leaseDeliveries": leaseDeliveries, "loadLeases": loadLeases,
	"laneOf": laneOf, "settleDeliveries": settleDeliveries, "recordAttempts": recordAttempts, "oldestPending": oldestPending,
	"countPending": countPending, "dropDeliveries": dropDeliveries, "overdueLanes": overdueLanes, "dropOverdue": dropOverdue,
	"postponeDeliveries": postponeDeliveries, "listDeliveries": listDeliveries, "listAttempts": listAttempts,
	"nextDueLane": nextDueLane, "oldDeliveries": oldDeliveries, "forgetAttempts": forgetAttempts,
	"forgetDeliveries": forgetDeliveries, "uncollectedConsents": uncollectedConsents, "createWorkspace": createWorkspace, "getWorkspace": getWorkspace,
	"findWorkspace": findWorkspace, "setCatalog": setCatalog, "addMember": addMember, "isMember": isMember,
	"listMembers": listMembers, "listMemberships": listMemberships, "choosePrimary": choosePrimary,
	"removeMember": removeMember, "createWorkspaceKey": createWorkspaceKey, "getWorkspaceKey": getWorkspaceKey,
	"listWorkspaceKeys": listWorkspaceKeys, "revokeWorkspaceKey": revokeWorkspaceKey,
	"touchWorkspaceKey": touchWorkspaceKey, "lockWorkspace": lockWorkspace, "knownEntries": knownEntries,
	"addNames": addNames, "advanceWorkspace": advanceWorkspace, "getEntry": getEntry, "listEntries": listEntries,
	"listByName": listByName, "listBySubject": listBySubject, "newestEntry": newestEntry, "forgetEntries": forgetEntries,
}

// MigrationsForTest counts the migrations: numbers may be left out.
func MigrationsForTest() int { return len(migrationFiles()) }

// SessionForTest are the settings of every connection.
var SessionForTest = sessionSettings

func EncodeNoticesForTest(origin string, hints []relay.Hint) ([]string, error) {
	return encodeNotices(origin, hints)
}

func DecodeNoticeForTest(origin, payload string) []relay.Hint { return decodeNotice(origin, payload) }

// TranslateForTest is how an error of the database reaches callers.
var TranslateForTest = translate

const MaxNoticeForTest = maxNotice
