-- Where does the money come from, and where does it go?
SELECT currency,
       reason,
       sumIf(amount, amount > 0) AS earned,
       -sumIf(amount, amount < 0) AS spent,
       earned - spent AS net
FROM
(
    SELECT JSONExtractString(payload, 'currency') AS currency,
           JSONExtractString(payload, 'reason') AS reason,
           toDecimal128OrZero(JSONExtractString(payload, 'amount'), 4) AS amount
    FROM events
    WHERE tenant_id = {tenant:UUID} AND project_id = {project:UUID} AND event_type = 'economy'
      AND occurred_at >= {from:Date} AND occurred_at < {to:Date}
)
GROUP BY currency, reason
ORDER BY currency, net DESC, reason
