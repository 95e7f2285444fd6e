// Package catalog reads what event types a workspace publishes, and judges entries and changes by it.
//
// A catalog is one file, YAML or JSON:
//
//	events:
//	  - name: opportunity.moved
//	    description: An opportunity went to another stage. Subscribe to follow a deal.
//	    subject: opportunity
//	    payloadSchema:
//	      type: object
//	      required: [opportunityId, to]
//	      properties:
//	        opportunityId: {type: string}
//	        to: {type: string}
//
// While a name lives its schema may change additively only: applications keep appending what they always did, and agents
// read payloads as they always did (contract, Parts).
package catalog
