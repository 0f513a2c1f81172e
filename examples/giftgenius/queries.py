"""The questions that the analysis asks the receipts, in the order in which it asks them.

They read the view ``line``, which ``data.rows`` describes.
"""

SUMMARY = """
SELECT count(*), count(DISTINCT basket_id), coalesce(sum(spend) FILTER (excluded IS NULL), 0),
       min(day), max(day)
FROM line WHERE household_id = ?
"""

ABOUT = """
SELECT struct FROM (SELECT * EXCLUDE (household_id) FROM person WHERE household_id = ?) AS struct
"""

WHO_THERE_IS = """
SELECT count(DISTINCT household_id), min(household_id), max(household_id),
       arg_min(household_id, (abs(household_id - ?), household_id))
FROM line
"""

# A favorite is bought often, and more often than others buy it: milk alone says nothing.
FAVORITES = """
WITH usual AS (
    SELECT category, type,
           count(DISTINCT basket_id) / (SELECT count(DISTINCT basket_id) FROM line) AS rate
    FROM line WHERE excluded IS NULL AND type IS NOT NULL
    GROUP BY ALL HAVING count(DISTINCT basket_id) >= 100
), own AS (
    SELECT category, type, count(DISTINCT basket_id) AS trips,
           trips / (SELECT count(DISTINCT basket_id) FROM line WHERE household_id = $1) AS rate
    FROM line WHERE household_id = $1 AND excluded IS NULL AND type IS NOT NULL
    GROUP BY ALL
)
SELECT category, type, trips, own.rate / usual.rate AS times_usual,
       sqrt(trips) * ln(1 + times_usual) AS weight
FROM own JOIN usual USING (category, type)
ORDER BY (trips >= 3 AND times_usual > 1.2) DESC, weight DESC, category, type
LIMIT $2
"""

EXCLUDED = """
SELECT excluded, count(*) FROM line
WHERE household_id = ? AND excluded IS NOT NULL GROUP BY ALL ORDER BY ALL
"""

BOUGHT_GIFTS = """
SELECT DISTINCT gift FROM line WHERE household_id = ? AND gift IS NOT NULL ORDER BY gift
"""

# Where the household's choices stand among all products of their type, cheapest to dearest.
PRICE_LEVEL = """
WITH product_price AS (
    SELECT product_id, category, type, avg(price) AS price
    FROM line WHERE excluded IS NULL AND type IS NOT NULL AND price > 0 GROUP BY ALL
), ranked AS (
    SELECT product_id, percent_rank() OVER (PARTITION BY category, type ORDER BY price) AS level
    FROM product_price
)
SELECT avg(level) FROM line JOIN ranked USING (product_id) WHERE household_id = ?
"""

SEGMENTS = """
WITH spent AS (
    SELECT part, sum(spend) AS everybody, sum(spend) FILTER (household_id = $1) AS own
    FROM line WHERE excluded IS NULL AND part IS NOT NULL GROUP BY ALL
), total AS (
    SELECT sum(spend) AS everybody, sum(spend) FILTER (household_id = $1) AS own
    FROM line WHERE excluded IS NULL
)
SELECT part, spent.own / total.own AS share,
       share / (spent.everybody / total.everybody) AS times_usual
FROM spent, total WHERE spent.own > 0
ORDER BY times_usual * sqrt(share) DESC, part
"""

# A slot is one product type in one basket. A shuffle deals the types of a week's slots anew,
# among baskets of like size: roses are a quick errand, and are compared with other quick errands.
COUNT = """
WITH favorite AS (
    SELECT unnest($categories) AS category, unnest($types) AS type,
           unnest(range(len($types))) AS unit
), kind AS (
    SELECT *, floor(log2(count(*) OVER (PARTITION BY basket_id)))::INTEGER AS class
    FROM (SELECT DISTINCT basket_id, category, type, gift FROM line
          WHERE week = $week AND excluded IS NULL AND type IS NOT NULL)
), slot AS MATERIALIZED (
    SELECT basket_id, class,
           coalesce(unit, len($types) + nullif(list_position($wanted, gift), 0) - 1, -1) AS unit,
           row_number() OVER (PARTITION BY class ORDER BY basket_id, category, type) AS slot
    FROM kind LEFT JOIN favorite USING (category, type)
), deal AS (
    SELECT shuffle, class, unit,
           row_number() OVER (
               PARTITION BY shuffle, class ORDER BY hash(slot, shuffle), slot
           ) AS slot
    FROM slot, range(1, $shuffles + 1) AS deals (shuffle) WHERE class > 0
), placed AS (
    SELECT 0 AS shuffle, basket_id, unit FROM slot WHERE unit >= 0
    UNION ALL
    SELECT shuffle, basket_id, deal.unit FROM deal JOIN slot USING (class, slot)
    WHERE deal.unit >= 0
), met AS (
    SELECT shuffle, favorite.unit AS favorite, gift.unit AS gift,
           count(DISTINCT favorite.basket_id) AS met
    FROM placed AS favorite JOIN placed AS gift USING (shuffle, basket_id)
    WHERE favorite.unit < len($types) AND gift.unit >= len($types)
    GROUP BY ALL
)
SELECT 'pair', favorite, gift, coalesce(sum(met) FILTER (shuffle = 0), 0)::BIGINT AS met,
       coalesce(sum(met) FILTER (shuffle > 0), 0)::BIGINT AS chance,
       ($shuffles * coalesce(sum(met * met) FILTER (shuffle > 0), 0) - chance * chance)::BIGINT
FROM met GROUP BY favorite, gift
UNION ALL
SELECT 'unit', unit, 0, count(DISTINCT basket_id), 0, 0 FROM placed WHERE shuffle = 0 GROUP BY unit
UNION ALL
SELECT 'week', 0, 0, count(*), count(DISTINCT basket_id), 0 FROM line WHERE week = $week
ORDER BY ALL
"""

# The shelf price without discounts, of things sold more than once, nearest to what the household
# usually pays within such goods; among equals the one that more people buy.
PRODUCT = """
WITH offer AS (
    SELECT product_id, any_value(size) AS size, any_value(brand) AS brand,
           round(median(price), 2) AS price, count(DISTINCT basket_id) AS sold
    FROM line WHERE gift = $1 AND excluded IS NULL AND price > 0
    GROUP BY product_id HAVING sold >= 2 AND round(median(price), 2) >= 1.5
), ranked AS (
    SELECT *, percent_rank() OVER (ORDER BY price) AS level FROM offer
)
SELECT product_id, size, brand, price, level, sold FROM ranked WHERE price <= $2
ORDER BY round(abs(level - $3), 1), sold DESC, product_id LIMIT 1
"""
